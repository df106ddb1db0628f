package oauth

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// replaceFile renames from to to. A reader that has the old file open keeps
// Windows from replacing it for a moment, so it asks again for a while.
func replaceFile(from, to string) error {
	const tries, wait = 20, 10 * time.Millisecond
	var err error
	for range tries {
		err = os.Rename(from, to)
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		<-time.After(wait)
	}
	return err
}

// syncDir does nothing: a directory cannot be flushed on Windows.
func syncDir(string) error { return nil }

// ownedAlone returns nil: the profile directory's access list keeps other
// users out, and mode bits say nothing on Windows.
func ownedAlone(string, fs.FileInfo) error { return nil }
