package queue_test

import "errors"

// limitFileSize has no counterpart on Windows.
func limitFileSize(uint64) error { return errors.ErrUnsupported }
