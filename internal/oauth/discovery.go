package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// serverInfo is what discovery found out, checked.
type serverInfo struct {
	resource  string // byte for byte as the resource's metadata gives it
	issuer    string
	scope     string // what to ask for; empty means to leave it out
	authorize *url.URL
	token     *url.URL
	register  *url.URL // nil when the issuer registers nobody
	methods   []string // of client authentication; empty when the issuer does not say
	issParam  bool     // the issuer promises `iss` in authorization responses
}

// resourcePath is where a server describes itself (RFC 9728).
const resourcePath = "/.well-known/oauth-protected-resource"

// resourceDocument is the protected resource metadata of RFC 9728.
type resourceDocument struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// issuerDocument is the authorization server metadata of RFC 8414.
type issuerDocument struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Register  string   `json:"registration_endpoint"`
	PKCE      []string `json:"code_challenge_methods_supported"`
	Auth      []string `json:"token_endpoint_auth_methods_supported"`
	IssParam  bool     `json:"authorization_response_iss_parameter_supported"`
}

// errIssuerChanged means that the server's metadata names another issuer or
// resource than the one pinned at the first sign-in.
var errIssuerChanged = errors.New("oauth: the server's sign-in has moved")

// discover asks the server where to sign in (MCP authorization; RFC 9728 and
// RFC 8414). A pinned issuer must still be among the ones the server names.
func (s *Session) discover(ctx context.Context, pinnedIssuer, pinnedResource string) (serverInfo, error) {
	doc, scope, err := s.resourceMetadata(ctx)
	if err != nil {
		return serverInfo{}, err
	}
	issuer := doc.Issuers[0]
	if pinnedIssuer != "" && slices.Contains(doc.Issuers, pinnedIssuer) {
		issuer = pinnedIssuer
	}
	for _, pin := range []struct{ was, is string }{{pinnedIssuer, issuer}, {pinnedResource, doc.Resource}} {
		if pin.was != "" && pin.is != pin.was {
			return serverInfo{}, fmt.Errorf("%w: it was %s and is now said to be %s; nothing was sent there; if whoever runs the server says that this is right, sign out (the command logout) and sign in again",
				errIssuerChanged, oneLine(pin.was, 200), oneLine(pin.is, 200))
		}
	}
	at, err := parseURL(issuer)
	if err != nil {
		return serverInfo{}, fmt.Errorf("the server names a sign-in server that cannot be used: %w", err)
	}
	if at.RawQuery != "" {
		return serverInfo{}, errors.New("the server names a sign-in server that cannot be used: the address has a query")
	}
	meta, err := s.issuerMetadata(ctx, at, issuer)
	if err != nil {
		return serverInfo{}, err
	}
	if len(scope) > maxAsked {
		scope = union(scope, "")
	}
	info := serverInfo{resource: doc.Resource, issuer: issuer, scope: scope, methods: meta.Auth, issParam: meta.IssParam}
	for _, e := range []struct {
		name, raw string
		to        **url.URL
		optional  bool
	}{
		{"authorization endpoint", meta.Authorize, &info.authorize, false},
		{"token endpoint", meta.Token, &info.token, false},
		{"registration endpoint", meta.Register, &info.register, true},
	} {
		if e.optional && e.raw == "" {
			continue
		}
		if *e.to, err = endpoint(e.raw, issuer); err != nil {
			return serverInfo{}, fmt.Errorf("the %s of the sign-in server cannot be used: %w", e.name, err)
		}
	}
	if !slices.Contains(meta.PKCE, "S256") {
		return serverInfo{}, errors.New("the sign-in server does not offer PKCE with S256, so a code could be stolen; refusing")
	}
	return info, nil
}

// resourceMetadata finds the server's own document: where its challenge says,
// else at the well-known path, else at the root.
func (s *Session) resourceMetadata(ctx context.Context) (resourceDocument, string, error) {
	// A POST of a message that changes nothing is what every server answers
	// with its challenge; a GET may be refused before that.
	r, err := s.wire.fetch(ctx, s.server, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return resourceDocument{}, "", fmt.Errorf("find out where to sign in: %w", err)
	}
	var places []*url.URL
	var scope string
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		scope = bearerParam(r.header.Values("WWW-Authenticate"), "scope")
		if raw := bearerParam(r.header.Values("WWW-Authenticate"), "resource_metadata"); raw != "" {
			u, err := parseURL(raw)
			if err != nil || origin(u) != origin(s.server) {
				return resourceDocument{}, "", errors.New("the server says that its sign-in metadata is at another address than its own; refusing")
			}
			places = append(places, u)
		}
	}
	hinted := len(places)
	root := &url.URL{Scheme: s.server.Scheme, Host: s.server.Host, Path: resourcePath}
	if path := strings.TrimRight(s.server.EscapedPath(), "/"); path != "" {
		places = append(places, root.JoinPath(path))
	}
	places = append(places, root)
	var last error
	for i, place := range places {
		doc, err := s.resourceDocument(ctx, place, i < hinted)
		if err == nil {
			if scope == "" {
				scope = strings.Join(doc.Scopes, " ")
			}
			return doc, scope, nil
		}
		last = err
		if errors.Is(err, errWrongResource) {
			break // What the server says of itself is wrong; looking further would only hide it.
		}
	}
	return resourceDocument{}, "", fmt.Errorf("find out where to sign in: %w", last)
}

var errWrongResource = errors.New("oauth: the metadata is about another server")

func (s *Session) resourceDocument(ctx context.Context, place *url.URL, hinted bool) (resourceDocument, error) {
	r, err := s.wire.fetch(ctx, place, nil)
	if err != nil {
		return resourceDocument{}, err
	}
	if r.status != http.StatusOK {
		return resourceDocument{}, fmt.Errorf("%s answers %d", place, r.status)
	}
	var doc resourceDocument
	if err := r.json(&doc); err != nil {
		return resourceDocument{}, fmt.Errorf("%s: %w", place, err)
	}
	if len(doc.Issuers) == 0 {
		return resourceDocument{}, fmt.Errorf("%s names no sign-in server", place)
	}
	if !bindsTo(doc.Resource, s.server, place, hinted) {
		return resourceDocument{}, fmt.Errorf("%w: %s, and the server is %s", errWrongResource, oneLine(doc.Resource, 200), s.server)
	}
	return doc, nil
}

// bindsTo reports whether a document found at place speaks for server: it
// names exactly that server, or it was found at the root and names the whole
// origin (RFC 9728, section 3.3, for a document that was looked up there).
func bindsTo(resource string, server, place *url.URL, hinted bool) bool {
	u, err := parseURL(resource)
	if err != nil || u.RawQuery != server.RawQuery || origin(u) != origin(server) {
		return false
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if path == strings.TrimRight(server.EscapedPath(), "/") {
		return true
	}
	return path == "" && !hinted && place.Path == resourcePath
}

// bound reports whether a token for resource may be sent to the configured
// server.
func (s *Session) bound(resource string) bool {
	return bindsTo(resource, s.server, &url.URL{Path: resourcePath}, false)
}

// issuerMetadata gets the issuer's document from the places MCP lists, in its
// order. The issuer in it must be the very string it was looked up by.
func (s *Session) issuerMetadata(ctx context.Context, at *url.URL, issuer string) (issuerDocument, error) {
	base := &url.URL{Scheme: at.Scheme, Host: at.Host}
	path := strings.TrimRight(at.EscapedPath(), "/")
	places := []*url.URL{base.JoinPath("/.well-known/oauth-authorization-server", path), base.JoinPath("/.well-known/openid-configuration", path)}
	if path != "" {
		places = append(places, base.JoinPath(path, "/.well-known/openid-configuration"))
	}
	var last error
	for _, place := range places {
		r, err := s.wire.fetch(ctx, place, nil)
		if err != nil {
			return issuerDocument{}, fmt.Errorf("read the sign-in server's metadata: %w", err)
		}
		if r.status == http.StatusNotFound && last != nil {
			continue // What was wrong at a place that answers says more.
		}
		if r.status != http.StatusOK {
			last = fmt.Errorf("%s answers %d", place, r.status)
			continue
		}
		var doc issuerDocument
		if err := r.json(&doc); err != nil {
			last = fmt.Errorf("%s: %w", place, err)
			continue
		}
		if doc.Issuer != issuer {
			return issuerDocument{}, fmt.Errorf("read the sign-in server's metadata: it calls itself %q and the server calls it %q", oneLine(doc.Issuer, 200), oneLine(issuer, 200))
		}
		return doc, nil
	}
	return issuerDocument{}, fmt.Errorf("read the sign-in server's metadata: %w", last)
}
