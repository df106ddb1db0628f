//go:build !cgo

package queue

import (
	"errors"

	"modernc.org/sqlite"
)

// driverName is the SQLite driver of builds without a C compiler.
const driverName = "sqlite"

// resultCode is SQLite's primary result code of err, or -1.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return -1
}
