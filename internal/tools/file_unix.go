//go:build unix

package tools

import "syscall"

// nonblock keeps the opening of a FIFO from waiting for a writer.
const nonblock = syscall.O_NONBLOCK

// oddName reports whether the path cannot name a file. Any can here.
func oddName(string) bool { return false }
