package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

var errStaticKey = hinted{errors.New("a static key is set"), "BELLMAN_KEY takes the place of signing in; unset it to sign in with the browser"}

// errForgetful is why there is no signing in by command where the sign-in ends
// with the process that made it.
var errForgetful = hinted{
	errors.New("a sign-in made here would be lost when this command ends: there is no keychain to keep it, or memory was asked for"),
	"unlock or install a keychain (bellman-bridge doctor says what is wrong with it), or allow a file by BELLMAN_CREDENTIAL_STORE=file for this command and for the bridge; or call a tool, and the bridge signs you in for as long as it runs",
}

// login signs the person in and waits until it is done. What a bridge would log
// it says itself.
func login(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	if cfg.key != "" {
		return errStaticKey
	}
	session, err := openSession(ctx, cfg, nil, forPerson(cfg, log))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	if !session.Lasts() {
		return errForgetful
	}
	attempt, err := session.Login(ctx)
	if err != nil {
		return unfinished(err, "check the network and BELLMAN_URL, then try again")
	}
	if link := attempt.Link(); link != "" {
		showLink(s.out, cfg, link, attempt.Opened())
	}
	if err := awaitApproval(ctx, attempt, s.out); err != nil {
		return unfinished(err, "run "+cfg.command("login")+" to try again")
	}
	who, _ := session.Identity()
	if who.Label == "" {
		who.Label = "(the service did not say as whom)"
	}
	fmt.Fprintf(s.out, "Signed in as %s at %s, for the profile %s.\n", who.Label, cfg.server.Host, cfg.profile)
	if cfg.profile != desktopProfile && isDir(filepath.Join(filepath.Dir(cfg.dir), desktopProfile)) {
		fmt.Fprintf(s.out, "Claude Desktop has a profile of its own: to sign in there, run %s.\n", config{profile: desktopProfile}.command("login"))
	}
	return nil
}

// awaitApproval waits for the end of the attempt. Another link takes the place
// of the one shown once a browser has followed that, and when the copy that
// waited for it has ended.
func awaitApproval(ctx context.Context, a *oauth.Attempt, w io.Writer) error {
	shown := a.Link()
	for {
		moment, cancel := context.WithTimeout(ctx, linkInterval)
		err := a.Wait(moment)
		pending := err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && moment.Err() != nil
		cancel()
		if !pending {
			return err
		}
		if link := a.Link(); link != "" && link != shown {
			shown = link
			fmt.Fprintf(w, "That link has been followed, or can be no more. If the sign-in does not go on, open this one:\n\n  %s\n\n", link)
		}
	}
}

// linkInterval is how often a command that waits looks for a new link: seldom
// enough for a person to be through before they are shown one.
const linkInterval = 10 * time.Second

// showLink tells the person where to go on.
func showLink(w io.Writer, cfg config, link string, opened bool) {
	switch {
	case opened:
		fmt.Fprintf(w, "A browser has been opened for you to sign in. If you do not see it, open this link on this machine:\n\n  %s\n\n", link)
	case cfg.noBrowser:
		fmt.Fprintf(w, "Open this link in a browser on this machine to sign in:\n\n  %s\n\n", link)
	default:
		fmt.Fprintf(w, "No browser could be started here. Open this link in one on this machine to sign in:\n\n  %s\n\n", link)
	}
	if u, err := url.Parse(link); err == nil && !opened {
		fmt.Fprintf(w, "Is this machine reached by SSH? Then run this where you sit, and open the link there:\n\n  ssh -N -L %s:127.0.0.1:%s THIS-MACHINE\n\n", u.Port(), u.Port())
	}
	fmt.Fprintln(w, "Waiting for you to approve; Ctrl-C gives up …")
}

// unfinished is why a command came to nothing.
func unfinished(err error, next string) error {
	if errors.Is(err, context.Canceled) {
		err = errors.New("given up")
	}
	return hinted{err, "nothing was changed; " + next}
}

// forPerson is the log of a command that a person watches: its own words, unless
// they want to see more.
func forPerson(cfg config, log *slog.Logger) *slog.Logger {
	if cfg.level > slog.LevelDebug {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// logout forgets the sign-in. What is queued stays for the next one.
func logout(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	if cfg.key != "" {
		return errStaticKey
	}
	session, err := openSession(ctx, cfg, nil, forPerson(cfg, log))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	err = session.SignOut(ctx)
	if errors.Is(err, oauth.ErrStillSignedIn) {
		return unfinished(err, "end the other copies of the bridge if they are in the way, and run "+cfg.command("logout")+" again")
	}
	if err != nil {
		return hinted{err, "the sign-in is no longer used here, but its item may still be in the keychain"}
	}
	fmt.Fprintln(s.out, "Signed out. Rooms and waiting events are kept for the next sign-in. The service cannot revoke a token: one that leaked stays valid for up to ten minutes.")
	return nil
}
