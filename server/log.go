package main

import (
	"bytes"
	"io"
	"log/slog"
)

// newLog writes one line a record to w, which hosts keep as the extension's
// log: "[bellman] msg=… key=value".
func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(prefixed{w}, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || (a.Key == slog.LevelKey && a.Value.String() == "INFO")) {
				return slog.Attr{} // the host stamps lines itself
			}
			return a
		},
	}))
}

// prefixed puts the product's name before each write. slog serializes them.
type prefixed struct{ w io.Writer }

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.w.Write(bytes.Join([][]byte{[]byte("[bellman] "), line}, nil)); err != nil {
		return 0, err
	}
	return len(line), nil
}
