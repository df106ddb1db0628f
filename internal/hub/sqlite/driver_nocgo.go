//go:build !cgo

package sqlite

import (
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // The driver of builds without a C compiler.
)

const driver = "sqlite"

// dataSource names the database file for this driver. The pragmas stand in it
// so that every connection of the pool has them.
func dataSource(path string) string {
	q := url.Values{
		"_pragma": {"busy_timeout(5000)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}
	if path == memory {
		return "file::memory:?" + q.Encode()
	}
	q.Add("_pragma", "journal_mode(WAL)")
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + q.Encode()
}
