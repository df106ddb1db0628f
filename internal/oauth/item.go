package oauth

import (
	"encoding/json"
	"fmt"
	"time"
)

// credential is one sign-in: the token pair and all that a refresh needs, so
// that a refresh asks nobody where to send the refresh token.
type credential struct {
	gen      uint64
	issuer   string
	resource string
	clientID string
	client   clientAuth
	tokenURL string
	scope    string // what was asked for
	refresh  secret
	access   secret
	expiry   time.Time // zero when the server did not say
	lifetime time.Duration
	subject  string
	print    string // fingerprint of the access token, kept when the token is not
}

// item is the stored form of a credential.
type item struct {
	Version  int    `json:"v"`
	Gen      uint64 `json:"gen"`
	Issuer   string `json:"iss"`
	Resource string `json:"res"`
	ClientID string `json:"cid"`
	Method   string `json:"cm,omitempty"`
	Proof    string `json:"cs,omitempty"` // the client's secret
	TokenURL string `json:"te"`
	Scope    string `json:"sc,omitempty"`
	Refresh  string `json:"rt,omitempty"`
	Access   string `json:"at,omitempty"`
	Expiry   int64  `json:"exp,omitempty"` // seconds
	Lifetime int64  `json:"ttl,omitempty"` // seconds
	Subject  string `json:"sub,omitempty"`
	Print    string `json:"at_fp,omitempty"`
}

const itemVersion = 1

// encode returns the stored form, without the access token when that is what
// makes it too large: the next start then begins with a refresh.
func (c *credential) encode() ([]byte, error) {
	it := item{
		Version: itemVersion, Gen: c.gen, Issuer: c.issuer, Resource: c.resource, ClientID: c.clientID, TokenURL: c.tokenURL,
		Method: c.client.Method, Proof: string(c.client.Secret), Scope: c.scope,
		Refresh: string(c.refresh), Access: string(c.access), Subject: c.subject, Print: c.print,
	}
	if !c.expiry.IsZero() {
		it.Expiry, it.Lifetime = c.expiry.Unix(), int64(c.lifetime/time.Second)
	}
	b, err := json.Marshal(it)
	if err == nil && len(b) > maxItem && it.Refresh != "" {
		it.Access, it.Expiry, it.Lifetime = "", 0, 0
		b, err = json.Marshal(it)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the sign-in: %w", err)
	}
	if len(b) > maxItem {
		return nil, fmt.Errorf("the sign-in needs %d bytes, and a keychain holds %d", len(b), maxItem)
	}
	return b, nil
}

// decodeItem returns the credential in b, or nil for anything that is not one:
// what cannot be read is as good as signed out, and the next sign-in
// replaces it.
func decodeItem(b []byte) *credential {
	var it item
	if err := json.Unmarshal(b, &it); err != nil || it.Version != itemVersion {
		return nil
	}
	if !sendable(it.Access) {
		it.Access = ""
	}
	if it.Issuer == "" || it.Resource == "" || it.ClientID == "" || it.Refresh == "" && it.Access == "" {
		return nil
	}
	// The item may have been put there by something else; it must not be the
	// way to send a refresh token off to another server.
	if _, err := endpoint(it.TokenURL, it.Issuer); err != nil {
		return nil
	}
	c := &credential{
		gen: it.Gen, issuer: it.Issuer, resource: it.Resource, clientID: it.ClientID, tokenURL: it.TokenURL,
		client:  clientAuth{Method: it.Method, Secret: secret(it.Proof)},
		scope:   it.Scope,
		refresh: secret(it.Refresh), access: secret(it.Access), subject: it.Subject, print: it.Print,
	}
	if it.Expiry > 0 {
		c.expiry, c.lifetime = time.Unix(it.Expiry, 0), time.Duration(max(it.Lifetime, 0))*time.Second
	}
	return c
}

// fingerprint names the access token; there may be no credential.
func (c *credential) fingerprint() string {
	if c == nil {
		return ""
	}
	return c.print
}

// usable reports whether the access token can be sent for at least margin
// more, as far as its expiry tells, and is not the one the service refused. A
// token with a short life gets a short margin, or it would never be usable.
func (c *credential) usable(now time.Time, margin time.Duration, refused secret) bool {
	if c == nil || c.access == "" || refused != "" && c.access == refused {
		return false
	}
	if c.lifetime > 0 {
		margin = min(margin, c.lifetime/3)
	}
	return c.expiry.IsZero() || c.expiry.Sub(now) > margin
}
