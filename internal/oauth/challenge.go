package oauth

import "strings"

// maxChallenge is how much of a header line is read, in bytes.
const maxChallenge = 8 << 10

// challenge is one authentication scheme of a WWW-Authenticate header (RFC
// 9110, section 11.6.1), its parameter names in lower case.
type challenge struct {
	scheme string
	params map[string]string
}

// bearerParam returns a parameter of the first Bearer challenge that has it.
func bearerParam(headers []string, name string) string {
	for _, h := range headers {
		for _, c := range parseChallenges(h) {
			if v := c.params[name]; v != "" && strings.EqualFold(c.scheme, "bearer") {
				return v
			}
		}
	}
	return ""
}

// parseChallenges reads the challenges of one header line. What makes no
// sense is skipped, not refused: the header is only a hint where to look.
func parseChallenges(h string) []challenge {
	h = h[:min(len(h), maxChallenge)]
	var out []challenge
	for p := (scanner{rest: h}); ; {
		p.skip(" \t,")
		word := p.token()
		if word == "" {
			if p.rest == "" {
				return out
			}
			p.rest = p.rest[1:]
			continue
		}
		p.skip(" \t")
		if !strings.HasPrefix(p.rest, "=") {
			out = append(out, challenge{scheme: word, params: map[string]string{}})
			continue
		}
		p.rest = p.rest[1:]
		p.skip(" \t")
		value := p.value()
		if len(out) == 0 {
			continue
		}
		// The first one counts: a repeated parameter must not override it.
		params := out[len(out)-1].params
		if _, have := params[strings.ToLower(word)]; !have {
			params[strings.ToLower(word)] = value
		}
	}
}

// scanner walks over a header line.
type scanner struct{ rest string }

func (p *scanner) skip(set string) { p.rest = strings.TrimLeft(p.rest, set) }

// token takes a token of RFC 9110, or nothing.
func (p *scanner) token() string {
	i := 0
	for i < len(p.rest) && isTokenByte(p.rest[i]) {
		i++
	}
	t := p.rest[:i]
	p.rest = p.rest[i:]
	return t
}

// value takes a token or a quoted string; one that is not closed ends with
// the line.
func (p *scanner) value() string {
	if !strings.HasPrefix(p.rest, `"`) {
		return p.token()
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	p.rest = ""
	return b.String()
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
