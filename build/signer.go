package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"bellman.sh/desktop/build/mcpb"
)

// signer holds the files a release signs with. Each is optional and leaves out
// one kind of signature; none of them is read by us, only named to the program
// that signs.
type signer struct {
	minisignKey             string
	bundleCert, bundleKey   string
	windowsCert, windowsKey string
	windowsTime             string
	appleCert               string
}

func (s *signer) flags(f *flag.FlagSet) {
	f.StringVar(&s.minisignKey, "minisign-key", "", "")
	f.StringVar(&s.bundleCert, "bundle-cert", "", "")
	f.StringVar(&s.bundleKey, "bundle-key", "", "")
	f.StringVar(&s.windowsCert, "windows-cert", "", "")
	f.StringVar(&s.windowsKey, "windows-key", "", "")
	f.StringVar(&s.windowsTime, "windows-timestamp", "", "")
	f.StringVar(&s.appleCert, "apple-p12", "", "")
}

// check finds what would fail at the end of a long build: a file that is not
// there, or half of a pair.
func (s *signer) check() error {
	for _, pair := range [][3]string{
		{"bundle", s.bundleCert, s.bundleKey},
		{"windows", s.windowsCert, s.windowsKey},
	} {
		if (pair[1] == "") != (pair[2] == "") {
			return &usageError{fmt.Sprintf("--%s-cert and --%s-key go together", pair[0], pair[0])}
		}
	}
	for flag, path := range map[string]string{
		"minisign-key": s.minisignKey, "bundle-cert": s.bundleCert, "bundle-key": s.bundleKey,
		"windows-cert": s.windowsCert, "windows-key": s.windowsKey, "apple-p12": s.appleCert,
	} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if s.windowsTime != "" && s.windowsCert == "" {
		return &usageError{"--windows-timestamp needs --windows-cert"}
	}
	return nil
}

// windows signs a program with Authenticode.
func (s *signer) windows(ctx context.Context, staging string, data []byte) ([]byte, error) {
	in, out := filepath.Join(staging, "unsigned.exe"), filepath.Join(staging, "signed.exe")
	defer os.Remove(in)
	defer os.Remove(out)
	if err := os.WriteFile(in, data, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"sign", "-certs", s.windowsCert, "-key", s.windowsKey, "-h", "sha256",
		"-n", "Bellman for Claude Desktop", "-i", "https://bellman.sh",
	}
	if s.windowsTime != "" {
		args = append(args, "-ts", s.windowsTime)
	}
	if _, err := execute(ctx, nil, "osslsigncode", append(args, "-in", in, "-out", out)...); err != nil {
		return nil, fmt.Errorf("sign for Windows: %w", err)
	}
	return os.ReadFile(out)
}

// apple signs a universal program with a Developer ID. The password of the
// certificate is taken by quill from QUILL_SIGN_PASSWORD.
func (s *signer) apple(ctx context.Context, staging string, data []byte) ([]byte, error) {
	path := filepath.Join(staging, "bellman-bridge-darwin")
	defer os.Remove(path)
	if err := os.WriteFile(path, data, 0o700); err != nil { //nolint:gosec // it is a program
		return nil, err
	}
	if _, err := execute(ctx, nil, "quill", "sign", "--p12", s.appleCert, path); err != nil {
		return nil, fmt.Errorf("sign for macOS: %w", err)
	}
	return os.ReadFile(path)
}

// seal puts a signature into a bundle. The first certificate of the file is
// the signer's, those behind it lead to the authority.
func (s *signer) seal(ctx context.Context, staging string, bundle []byte) ([]byte, error) {
	args := []string{
		"cms", "-sign", "-binary", "-md", "sha256", "-outform", "DER",
		"-signer", s.bundleCert, "-inkey", s.bundleKey,
	}
	text, err := os.ReadFile(s.bundleCert)
	if err != nil {
		return nil, err
	}
	if _, chain := pem.Decode(text); len(bytes.TrimSpace(chain)) > 0 {
		path := filepath.Join(staging, "chain.pem")
		defer os.Remove(path)
		if err := os.WriteFile(path, chain, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-certfile", path)
	}
	return mcpb.Seal(bundle, func(content []byte) ([]byte, error) {
		return execute(ctx, content, "openssl", args...)
	})
}

// sums signs the list of sums beside it. Minisign asks for the password on the
// terminal when the key has one.
func (s *signer) sums(ctx context.Context, path, comment string) error {
	if _, err := execute(ctx, nil, "minisign", "-S", "-s", s.minisignKey, "-m", path, "-t", comment); err != nil {
		return fmt.Errorf("sign the sums: %w", err)
	}
	return nil
}

// program signs one program of the release where there is a certificate for
// its system, and says in one line what it did or why it did not.
func (s *signer) program(ctx context.Context, t terminal, staging, name string, b binary) (binary, error) {
	var err error
	switch name {
	case "bellman-bridge.exe":
		if s.windowsCert == "" {
			t.say("%s: no Authenticode signature, for there is no --windows-cert", name)
			return b, nil
		}
		b.data, err = s.windows(ctx, staging, b.data)
		b.signed = "Authenticode"
	case "bellman-bridge-darwin":
		if s.appleCert == "" {
			t.say("%s: signed ad hoc only, for there is no --apple-p12", name)
			return b, nil
		}
		b.data, err = s.apple(ctx, staging, b.data)
		b.signed = "Mach-O, Developer ID"
	default:
		return b, nil
	}
	if err != nil {
		return binary{}, err
	}
	t.say("%s: signed (%s)", name, b.signed)
	return b, nil
}
