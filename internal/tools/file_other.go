//go:build !unix

package tools

// nonblock is not needed where opening a file by name cannot block.
const nonblock = 0
