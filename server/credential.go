package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"bellman.sh/desktop/internal/keychain"
	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/tools"
)

// keychainService is the name under which the keychain shows our items.
const keychainService = "Bellman for Claude Desktop"

// credential is how this process proves who it is: a static key, or the
// browser sign-in. It implements remote.Tokens and remote.Widener.
type credential struct {
	cfg     config
	session *late[*oauth.Session] // nil under a static key
}

// openCredential chooses the store and opens the session in the background:
// asking a keychain whether it is there can take a second or two.
func openCredential(ctx context.Context, cfg config, host oauth.Host, log *slog.Logger) *credential {
	c := &credential{cfg: cfg}
	if cfg.key == "" {
		c.session = begin(func() (*oauth.Session, error) { return openSession(ctx, cfg, host, log) })
	}
	return c
}

func openSession(ctx context.Context, cfg config, host oauth.Host, log *slog.Logger) (*oauth.Session, error) {
	browser := oauth.OpenBrowser
	if cfg.noBrowser {
		browser = nil
	}
	store, other := chooseStore(ctx, cfg, log)
	session, err := oauth.New(oauth.Config{
		Server: cfg.server.String(), Dir: cfg.dir, Profile: cfg.profile, Store: store, Open: browser, Host: host, TLS: cfg.tls, Log: log,
	})
	if err != nil || other == nil {
		return session, err
	}
	if moved, err := session.TakeFrom(ctx, other); err != nil {
		log.Warn("the sign-in stays where it was", "error", err)
	} else if moved {
		log.Info("the sign-in was moved", "from", other.Name(), "to", store.Name())
	}
	return session, nil
}

// chooseStore returns the store to use and the one a sign-in may still be in,
// nil when there is none. It never writes a token in the clear unless it was
// asked to: where no keychain can be used, the sign-in lasts as long as this
// process.
func chooseStore(ctx context.Context, cfg config, log *slog.Logger) (store, other oauth.Store) { //nolint:ireturn // stores to choose from
	if cfg.store == "memory" {
		return oauth.MemoryStore(), nil
	}
	file := oauth.FileStore(oauth.CredentialFile(cfg.dir, cfg.server.String()))
	item := keychain.New(keychainService, oauth.ItemName(cfg.server.String(), cfg.profile))
	err := keychain.Probe(ctx)
	switch {
	case cfg.store == "file" && err != nil:
		return file, nil
	case cfg.store == "file":
		return file, item
	case err != nil:
		log.Warn("no keychain can be used, so the sign-in lasts only until the bridge ends; unlock or install one, set BELLMAN_KEY, or allow a file with BELLMAN_CREDENTIAL_STORE=file", "error", err)
		return oauth.MemoryStore(), nil
	}
	return item, file
}

// Token implements remote.Tokens.
func (c *credential) Token(ctx context.Context) (string, error) {
	if c.session == nil {
		return c.cfg.key, nil
	}
	s, err := c.session.get(ctx)
	if err != nil {
		return "", err
	}
	token, err := s.Token(ctx)
	return token, asRemote(err)
}

// Replace implements remote.Tokens.
func (c *credential) Replace(ctx context.Context, refused string) (string, error) {
	if c.session == nil {
		return remote.Key(c.cfg.key).Replace(ctx, refused)
	}
	s, err := c.session.get(ctx)
	if err != nil {
		return "", err
	}
	token, err := s.Replace(ctx, refused)
	return token, asRemote(err)
}

// Widen implements remote.Widener.
func (c *credential) Widen(ctx context.Context, narrow string, challenges []string) (string, error) {
	if c.session == nil {
		return "", errors.New("a static key has the access it has")
	}
	s, err := c.session.get(ctx)
	if err != nil {
		return "", err
	}
	token, err := s.Widen(ctx, narrow, challenges)
	return token, asRemote(err)
}

// asRemote says in the client's words that only the person can help: by
// signing in, or by unlocking the keychain, which signing in begins with.
func asRemote(err error) error {
	if errors.Is(err, oauth.ErrSignInNeeded) || errors.Is(err, keychain.ErrLocked) {
		return fmt.Errorf("%w: %w", remote.ErrSignInNeeded, err)
	}
	return err
}

// signIn returns the browser sign-in for the tools, nil under a static key.
func (c *credential) signIn() tools.SignIn { //nolint:ireturn // what tools asks for
	if c.session == nil {
		return nil
	}
	return browserSignIn{c.session}
}

type browserSignIn struct{ session *late[*oauth.Session] }

// SignIn implements tools.SignIn.
func (b browserSignIn) SignIn(ctx context.Context) (tools.Attempt, error) { //nolint:ireturn // what tools asks for
	s, err := b.session.get(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.SignIn(ctx)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// identity tells whose rooms these are: the signed-in person, or the key,
// known by its hash alone.
func (c *credential) identity() (queue.Identity, bool) {
	id := queue.Identity{Server: c.cfg.server.String()}
	if c.session == nil {
		sum := sha256.Sum256([]byte(c.cfg.key))
		id.User = "key-" + hex.EncodeToString(sum[:16])
		return id, true
	}
	<-c.session.done
	if c.session.err != nil {
		return id, false
	}
	who, _ := c.session.value.Identity()
	id.User = who.UserID
	return id, id.User != ""
}

// whoami answers from the state file, never from the keychain.
func (c *credential) whoami() tools.Whoami {
	if c.session == nil {
		return tools.Whoami{Source: tools.SourceEnv}
	}
	<-c.session.done
	if c.session.err != nil {
		return tools.Whoami{Source: tools.SourceUnknown}
	}
	who, ok := c.session.value.Identity()
	if !ok {
		return tools.Whoami{Source: tools.SourceUnknown}
	}
	return tools.Whoami{Source: tools.SourceOAuth, Label: who.Label, Plan: who.Plan, Role: who.Role, OrgID: who.OrgID}
}

// follow calls changed after every sign-in and sign-out, of any process, until
// ctx ends.
func (c *credential) follow(ctx context.Context, changed func()) {
	if c.session == nil {
		return
	}
	s, err := c.session.get(ctx)
	if err != nil {
		return
	}
	for {
		next := s.Changed()
		changed()
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// close lets a refresh in flight finish: losing its answer would cost the
// sign-in.
func (c *credential) close(ctx context.Context, log *slog.Logger) {
	if c.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	s, err := c.session.get(ctx)
	if err != nil {
		return
	}
	if err := s.Close(ctx); err != nil {
		log.Warn("the sign-in was not closed in order", "error", err)
	}
}
