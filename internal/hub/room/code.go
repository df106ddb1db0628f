package room

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
	"unicode"
)

// codeLife is how long a join code works.
const codeLife = 15 * time.Minute

// codeAlphabet leaves out what people misread for something else.
const codeAlphabet = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"

// JoinURL is the page that explains a code to a person.
func JoinURL(code string) string { return "https://bellman.sh/j/" + code }

// newCode makes a code for a role: the readable part is random, the suffix
// says what it is for. See protocol.md 4.3.
func newCode(role string) string {
	b := make([]byte, 0, 6)
	for len(b) < cap(b) {
		var draw [16]byte
		_, _ = rand.Read(draw[:]) // It never fails.
		for _, c := range draw {
			// Bytes past the last whole run of the alphabet would favor its head.
			if int(c) < 256-256%len(codeAlphabet) && len(b) < cap(b) {
				b = append(b, codeAlphabet[int(c)%len(codeAlphabet)])
			}
		}
	}
	return "BELL-" + string(b[:4]) + "-" + string(b[4:]) + "-" + codeSuffix(role)
}

func codeSuffix(role string) string { return strings.ToUpper(strings.ReplaceAll(role, "_", "-")) }

// normalCode undoes what typing and pasting do to a code.
func normalCode(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return -1
		case r == '_':
			return '-'
		}
		return unicode.ToUpper(r)
	}, code)
}

// resolve returns the room and role a code opens now. The code is looked up
// whole, so one with another suffix is another code.
func (h *House) resolve(ctx context.Context, text string) (*room, func(), string, error) {
	normal := normalCode(text)
	marks, err := h.log.Find(ctx, markCode, normal, 1)
	if err != nil {
		return nil, nil, "", err
	}
	invalid := refuse(NotFound, "join code not found or expired: codes live 15 minutes, ask for a new one")
	if len(marks) == 0 {
		return nil, nil, "", invalid
	}
	r, leave, err := h.enter(ctx, marks[0].Room)
	if err != nil {
		return nil, nil, "", err
	}
	role := ""
	r.look(func(s *state, now int64) {
		for _, c := range s.liveCodes(now) {
			if c.Code == normal && !s.closed() {
				role = c.Role
			}
		}
	})
	if role == "" {
		leave()
		return nil, nil, "", invalid
	}
	return r, leave, role, nil
}
