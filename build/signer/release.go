package signer

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/program"
)

// What signatures beside the list of sums are called, after its own name.
const (
	MinisignSuffix = ".minisig"
	CosignSuffix   = ".sigstore.json"
)

// Bundle puts a signature into a bundle and returns it with a word on how, or
// as it was, with none, when there is no certificate. It tells nobody: one
// line about all bundles is enough, and SayBundles has it.
func (s *Signer) Bundle(ctx context.Context, dir string, bundle []byte) (sealed []byte, how string, err error) {
	if s.BundleCert == "" {
		return bundle, "", nil
	}
	args := []string{
		"cms", "-sign", "-binary", "-md", "sha256", "-outform", "DER",
		"-signer", s.BundleCert, "-inkey", s.BundleKey,
	}
	text, err := os.ReadFile(s.BundleCert)
	if err != nil {
		return nil, "", err
	}
	if _, chain := pem.Decode(text); len(bytes.TrimSpace(chain)) > 0 {
		path := filepath.Join(dir, "chain.pem")
		defer os.Remove(path)
		if err := os.WriteFile(path, chain, 0o600); err != nil {
			return nil, "", err
		}
		args = append(args, "-certfile", path)
	}
	sealed, err = mcpb.Seal(bundle, func(content []byte) ([]byte, error) {
		return program.Run(ctx, content, "openssl", args...)
	})
	return sealed, "PKCS #7 inside", err
}

// SayBundles says what Bundle does.
func (s *Signer) SayBundles() {
	if s.BundleCert == "" {
		s.Say("bundles: no signature inside, for there is no --bundle-cert")
		return
	}
	s.Say("bundles: signed (PKCS #7 inside)")
}

// Sums signs the list of sums beside it and returns the kinds of signatures it
// made. Minisign asks for the password on the terminal when the key has one;
// cosign takes it from COSIGN_PASSWORD. Nothing is sent anywhere: what proves
// the release is the key in the repository, not a public log.
func (s *Signer) Sums(ctx context.Context, path, comment string) (kinds []string, err error) {
	name := filepath.Base(path)
	if s.MinisignKey != "" {
		err := program.Ask(ctx, "minisign", "-S", "-s", s.MinisignKey, "-m", path, "-x", path+MinisignSuffix, "-t", comment)
		if err != nil {
			return nil, fmt.Errorf("sign the sums: %w", err)
		}
		kinds = append(kinds, "minisign")
	} else {
		s.Say("%s: not signed, for there is no --minisign-key", name)
	}
	if s.CosignKey != "" {
		err := program.Ask(ctx, "cosign", "sign-blob", "--yes", "--key", s.CosignKey,
			"--use-signing-config=false", "--tlog-upload=false", "--bundle", path+CosignSuffix, path)
		if err != nil {
			return nil, fmt.Errorf("sign the sums: %w", err)
		}
		kinds = append(kinds, "cosign")
	} else {
		s.Say("%s: no signature of cosign's, for there is no --cosign-key", name)
	}
	if len(kinds) > 0 {
		s.Say("%s: signed (%s)", name, strings.Join(kinds, ", "))
	}
	return kinds, nil
}
