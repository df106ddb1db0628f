// Package signer makes the signatures of a release with the programs that
// guard the keys: this package names files to them and reads no secret. Every
// signature is optional; each step says in one line what it did, or why it did
// not. (design.md 8)
package signer

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"bellman.sh/desktop/build/program"
)

// Signer holds what a release signs with. An empty field leaves out one kind
// of signature. Its methods may be called one at a time.
type Signer struct {
	// MinisignKey and CosignKey sign the list of sums.
	MinisignKey, CosignKey string
	// BundleCert and BundleKey sign inside bundles. Behind the signer's own,
	// the first file may hold the certificates that lead to the authority.
	BundleCert, BundleKey string
	// WindowsCert and WindowsKey sign with Authenticode, WindowsTime is the
	// address of a server for time-stamps.
	WindowsCert, WindowsKey, WindowsTime string
	// AppleP12 signs for macOS anywhere, AppleIdentity, a name in the keychain,
	// on macOS alone. NotaryProfile goes with the latter.
	AppleP12, AppleIdentity, NotaryProfile string

	// Say tells a person what was done. It is required.
	Say func(format string, args ...any)
}

// MisuseError reports flags that do not go together.
type MisuseError struct{ text string }

func (e *MisuseError) Error() string { return e.text }

// Flags gives f a flag for each field.
func (s *Signer) Flags(f *flag.FlagSet) {
	for name, field := range s.named() {
		f.StringVar(field, name, "", "")
	}
}

func (s *Signer) named() map[string]*string {
	return map[string]*string{
		"minisign-key": &s.MinisignKey, "cosign-key": &s.CosignKey,
		"bundle-cert": &s.BundleCert, "bundle-key": &s.BundleKey,
		"windows-cert": &s.WindowsCert, "windows-key": &s.WindowsKey, "windows-timestamp": &s.WindowsTime,
		"apple-p12": &s.AppleP12, "apple-identity": &s.AppleIdentity, "notary-profile": &s.NotaryProfile,
	}
}

// Check finds what would fail at the end of a long build: half of a pair
// (MisuseError), a file that is not there, a program that is missing.
func (s *Signer) Check() error {
	for _, together := range []struct {
		ok   bool
		text string
	}{
		{(s.BundleCert == "") == (s.BundleKey == ""), "--bundle-cert and --bundle-key go together"},
		{(s.WindowsCert == "") == (s.WindowsKey == ""), "--windows-cert and --windows-key go together"},
		{s.WindowsTime == "" || s.WindowsCert != "", "--windows-timestamp needs --windows-cert"},
		{s.AppleP12 == "" || s.AppleIdentity == "", "--apple-p12 and --apple-identity exclude each other"},
		{s.NotaryProfile == "" || s.AppleIdentity != "", "--notary-profile needs --apple-identity"},
	} {
		if !together.ok {
			return &MisuseError{together.text}
		}
	}
	var faults []error
	for name, field := range s.named() {
		switch name {
		case "windows-timestamp", "apple-identity", "notary-profile": // no files
			continue
		}
		if *field == "" {
			continue
		}
		if _, err := os.Stat(*field); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", name, err))
		}
	}
	for needed, name := range map[*string]string{
		&s.MinisignKey: "minisign", &s.CosignKey: "cosign", &s.BundleCert: "openssl", &s.WindowsCert: "osslsigncode",
		&s.AppleP12: "quill", &s.AppleIdentity: "codesign", &s.NotaryProfile: "xcrun",
	} {
		if *needed != "" {
			faults = append(faults, program.Need(name))
		}
	}
	return errors.Join(faults...)
}
