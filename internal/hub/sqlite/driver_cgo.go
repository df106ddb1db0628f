//go:build cgo

package sqlite

import (
	"net/url"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // The driver of builds that have a C compiler.
)

const driver = "sqlite3"

// dataSource names the database file for this driver. The pragmas stand in it
// so that every connection of the pool has them.
func dataSource(path string) string {
	q := url.Values{
		"_busy_timeout": {"5000"},
		"_txlock":       {"immediate"},
		"_synchronous":  {"FULL"},
	}
	if path == memory {
		return "file::memory:?" + q.Encode()
	}
	q.Set("_journal_mode", "WAL")
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + q.Encode()
}
