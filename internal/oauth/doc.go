// Package oauth signs the person in to one Bellman server and keeps the
// sign-in alive: discovery, registration, the browser round trip on loopback,
// refresh under a lock that every copy of the bridge shares, and one secret
// item in a Store.
//
// Start with New, which does no input or output. Session.Token gives the
// token for a request, Session.Replace another one after a 401 and
// Session.Widen after a 403 for want of access; none of them ever opens a
// browser, and an error of theirs is ErrSignInNeeded only when nothing but the
// person can help. Session.SignIn is the one way to a browser.
//
// Two rules hold everywhere. A token that was sent away to be replaced is
// never sent again, not by this process and not by another one: a refresh
// runs under refresh.lock, is detached from its caller and is written down
// before the lock is freed. And what a server is called by its own metadata
// (resource, issuer, token endpoint) is pinned at the first sign-in, so that
// no later answer can lead a stored token somewhere else.
//
// The package imports the standard library, golang.org/x/oauth2 (code
// exchange and PKCE) and gofrs/flock, and no sibling: a keychain is plugged in
// as a Store.
package oauth
