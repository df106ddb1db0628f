//go:build unix

package queue_test

import "golang.org/x/sys/unix"

// limitFileSize makes every write beyond n bytes of a file fail.
func limitFileSize(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n})
}
