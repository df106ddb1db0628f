//go:build unix && !darwin

package keychain

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	secrets      = "org.freedesktop.secrets"
	secretsPath  = dbus.ObjectPath("/org/freedesktop/secrets")
	loginPath    = dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
	serviceIface = "org.freedesktop.Secret.Service"
	lockedProp   = "org.freedesktop.Secret.Collection.Locked"
	busName      = "org.freedesktop.DBus"
)

// ready reports whether the Secret Service has an unlocked keyring, and
// whether using it may prompt the person: it is locked, somebody is there to
// see the prompt, and ctx's caller has the time. It asks over a connection of
// its own, so that a service that never answers holds up nothing else.
func ready(ctx context.Context) (prompts bool, err error) {
	address := busAddress()
	if address == "" {
		return false, fmt.Errorf("%w: this session has no D-Bus, which a keyring needs", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return false, fmt.Errorf("%w: the session's D-Bus cannot be reached", ErrUnavailable)
	}
	defer conn.Close()
	if err := offered(ctx, conn); err != nil {
		return false, err
	}
	path, err := collection(ctx, conn)
	if err != nil {
		return false, err
	}
	var locked bool
	err = property(ctx, conn, path, lockedProp, &locked)
	switch {
	case err != nil:
		return false, silent(ctx)
	case !locked:
		return false, nil
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return false, fmt.Errorf("%w: the keyring is locked, and there is no display to ask for its password", ErrUnavailable)
	}
	return true, nil
}

// busAddress returns where the session bus is, without starting one. It knows
// the two places that go-keyring's D-Bus library would look at before it
// launched a bus of its own.
func busAddress() string {
	switch a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); {
	case strings.HasPrefix(a, "autolaunch:"):
		return ""
	case a != "":
		return a
	}
	path := fmt.Sprintf("/run/user/%d/bus", os.Getuid())
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		return "unix:path=" + path
	}
	return ""
}

// offered reports whether a secret service runs or can be started by the bus.
func offered(ctx context.Context, conn *dbus.Conn) error {
	bus := conn.BusObject()
	var owned bool
	if err := bus.CallWithContext(ctx, busName+".NameHasOwner", 0, secrets).Store(&owned); err != nil {
		return fmt.Errorf("%w: the session's D-Bus does not answer", ErrUnavailable)
	}
	if owned {
		return nil
	}
	var names []string
	if err := bus.CallWithContext(ctx, busName+".ListActivatableNames", 0).Store(&names); err != nil {
		return fmt.Errorf("%w: the session's D-Bus does not answer", ErrUnavailable)
	}
	if !slices.Contains(names, secrets) {
		return fmt.Errorf("%w: no keyring is installed (such as gnome-keyring or KWallet)", ErrUnavailable)
	}
	return nil
}

// collection returns the collection go-keyring will use: login, else whatever
// is the default.
func collection(ctx context.Context, conn *dbus.Conn) (dbus.ObjectPath, error) {
	var all []dbus.ObjectPath
	if err := property(ctx, conn, secretsPath, serviceIface+".Collections", &all); err != nil {
		return "", silent(ctx)
	}
	if slices.Contains(all, loginPath) {
		return loginPath, nil
	}
	var path dbus.ObjectPath
	if err := conn.Object(secrets, secretsPath).CallWithContext(ctx, serviceIface+".ReadAlias", 0, "default").Store(&path); err != nil {
		return "", silent(ctx)
	}
	if path == "/" || path == "" {
		return "", fmt.Errorf("%w: no keyring has been created yet; open the desktop's password manager once to make one", ErrUnavailable)
	}
	return path, nil
}

func silent(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: the keyring service does not answer", ErrUnavailable)
	}
	return fmt.Errorf("%w: the keyring service answers with an error", ErrUnavailable)
}

// property reads a property into to, under a deadline, which godbus's own way
// to do so has not.
func property(ctx context.Context, conn *dbus.Conn, path dbus.ObjectPath, name string, to any) error {
	dot := strings.LastIndexByte(name, '.')
	var v dbus.Variant
	err := conn.Object(secrets, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, name[:dot], name[dot+1:]).Store(&v)
	if err != nil {
		return err
	}
	return v.Store(to)
}
