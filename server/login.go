package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
)

var errStaticKey = hinted{errors.New("a static key is set"), "BELLMAN_KEY takes the place of signing in; unset it to sign in with the browser"}

// login signs the person in and waits until it is done.
func login(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	if cfg.key != "" {
		return errStaticKey
	}
	session, err := openSession(ctx, cfg, nil, log)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	attempt, err := session.Login(ctx)
	if err != nil {
		return hinted{err, "nothing was changed; check the network and BELLMAN_URL, then try again"}
	}
	if link := attempt.Link(); link != "" {
		fmt.Fprintf(s.out, "Open this link in a browser on this machine to sign in:\n\n  %s\n\n", link)
		if u, err := url.Parse(link); err == nil && !attempt.Opened() {
			fmt.Fprintf(s.out, "Over SSH, forward the port first: ssh -L %s:127.0.0.1:%s HOST, then open the link on your side.\n\n", u.Port(), u.Port())
		}
		fmt.Fprintln(s.out, "Waiting for you to approve …")
	}
	if err := attempt.Wait(ctx); err != nil {
		return hinted{err, "nothing was changed; run bellman-bridge login to try again"}
	}
	who, _ := session.Identity()
	if who.Label == "" {
		who.Label = "(the service did not say as whom)"
	}
	fmt.Fprintf(s.out, "Signed in as %s.\n", who.Label)
	return nil
}

// logout forgets the sign-in. What is queued stays for the next one.
func logout(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	if cfg.key != "" {
		return errStaticKey
	}
	session, err := openSession(ctx, cfg, nil, log)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	if err := session.SignOut(ctx); err != nil {
		return hinted{err, "the sign-in is no longer used here, but its item may still be in the keychain"}
	}
	fmt.Fprintln(s.out, "Signed out. Rooms and waiting events are kept for the next sign-in. The service cannot revoke a token: one that leaked stays valid for up to ten minutes.")
	return nil
}
