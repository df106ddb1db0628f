package stdio

import (
	"bufio"
	"errors"
	"io"
)

// maxLine is the longest line read, in bytes; a longer one is answered with an
// error and skipped.
const maxLine = 16 << 20

var errLongLine = errors.New("line too long")

// readLine returns the next line without its end, in memory of its own. After
// errLongLine the reader stands at the start of the next line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, skipLine(r, err)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil // the last line may lack its end
		case err != nil:
			return nil, err
		}
		return trimEnd(line), nil
	}
}

func skipLine(r *bufio.Reader, err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errLongLine
}

func trimEnd(line []byte) []byte {
	n := len(line) - 1 // the '\n'
	if n > 0 && line[n-1] == '\r' {
		n--
	}
	return line[:n]
}
