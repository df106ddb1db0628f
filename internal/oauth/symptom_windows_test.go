package oauth_test

import "errors"

// writeWithoutRoom is for systems that can limit what a process writes.
func writeWithoutRoom(string) error {
	return errors.New("this system cannot say how much may be written")
}
