//go:build cgo

package queue

import (
	"errors"

	"github.com/mattn/go-sqlite3"
)

// driverName is the SQLite driver of builds with a C compiler.
const driverName = "sqlite3"

// resultCode is SQLite's primary result code of err, or -1.
func resultCode(err error) int {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return int(e.Code)
	}
	return -1
}
