package oauth

import (
	"context"
	"errors"
	"slices"
	"strings"
)

const (
	// maxScope bounds what a challenge can put into an authorization request
	// and the stored item, in bytes.
	maxScope = 512
	// maxAsked is how much scope a server may have asked for by its metadata, in
	// bytes, before it is cut to maxScope: a browser has to take the address.
	maxAsked = 6 << 10
	// maxWidened is how often one process asks the person for more access. A
	// server that never has enough must not become a stream of tabs.
	maxWidened = 3
)

// Widen returns another token than narrow, whose access the service has just
// called insufficient in a 403 with these challenges: the one that another
// caller or process got meanwhile. Its error is ErrSignInNeeded when the next
// SignIn will ask the person for what the challenge wants, in addition to what
// there is (MCP authorization, step-up); any other error means that there is
// nothing to be had by that.
func (s *Session) Widen(ctx context.Context, narrow string, challenges []string) (string, error) {
	if bearerParam(challenges, "error") != "insufficient_scope" {
		return "", errors.New("the refusal is not about the access of the token")
	}
	c, err := s.load(ctx, storeLimit)
	if err != nil {
		return "", err
	}
	if c == nil {
		return "", ErrSignInNeeded
	}
	if c.access != secret(narrow) && c.usable(s.now(), 0, "") {
		return string(c.access), nil
	}
	scope := bearerParam(challenges, "scope")
	if !missing(scope, c.scope) {
		return "", errors.New("the service refuses the access it has been given")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !missing(scope, s.wanted) {
		return "", ErrSignInNeeded
	}
	wanted := union(scope, union(s.wanted, c.scope)) // What is new comes first: there may be no room for all.
	if s.widened >= maxWidened || missing(scope, wanted) {
		return "", errors.New("the service asks for more and more access")
	}
	s.wanted = wanted
	s.widened++
	return "", ErrSignInNeeded
}

// union returns the scopes of both, each once, as far as they fit. What is no
// scope (RFC 6749, section 3.3) is left out.
func union(a, b string) string {
	var all []string
	size := 0
	for _, word := range append(strings.Fields(a), strings.Fields(b)...) {
		if !isScope(word) || slices.Contains(all, word) || size+len(word) > maxScope {
			continue
		}
		size += len(word) + 1
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// missing reports whether any scope of wanted is not in have.
func missing(wanted, have string) bool {
	return slices.ContainsFunc(strings.Fields(wanted), func(word string) bool { return !slices.Contains(strings.Fields(have), word) })
}

func isScope(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
