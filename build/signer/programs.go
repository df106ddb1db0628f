package signer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/pe"
	"bellman.sh/desktop/build/program"
)

// Identifier is the name under which the bridge is signed for macOS.
const Identifier = "sh.bellman.desktop.bridge"

// Windows signs a program with Authenticode and returns it with a word on how,
// or as it was, with none, when there is no certificate. Dir is a folder for
// files on the way.
func (s *Signer) Windows(ctx context.Context, dir, name string, data []byte) (signed []byte, how string, err error) {
	if s.WindowsCert == "" {
		s.Say("%s: no Authenticode signature, for there is no --windows-cert", name)
		return data, "", nil
	}
	in, out := filepath.Join(dir, "unsigned.exe"), filepath.Join(dir, "signed.exe")
	defer os.Remove(in)
	defer os.Remove(out)
	if err := os.WriteFile(in, data, 0o600); err != nil {
		return nil, "", err
	}
	args := []string{
		"sign", "-certs", s.WindowsCert, "-key", s.WindowsKey, "-h", "sha256",
		"-n", "Bellman for Claude Desktop", "-i", "https://bellman.sh",
	}
	how = "Authenticode"
	if s.WindowsTime != "" {
		args = append(args, "-ts", s.WindowsTime)
		how = "Authenticode with a time-stamp"
	}
	if _, err := program.Run(ctx, nil, "osslsigncode", append(args, "-in", in, "-out", out)...); err != nil {
		return nil, "", fmt.Errorf("sign for Windows: %w", err)
	}
	if signed, err = os.ReadFile(out); err != nil {
		return nil, "", fmt.Errorf("sign for Windows: %w", err)
	}
	if ok, err := pe.Signed(signed); err != nil {
		return nil, "", fmt.Errorf("sign for Windows: %w", err)
	} else if !ok {
		return nil, "", errors.New("sign for Windows: osslsigncode left no signature")
	}
	s.Say("%s: signed (%s)", name, how)
	return signed, how, nil
}

// Apple signs a universal program with a Developer ID and has it notarized
// where it is told to, and returns it with a word on how. Without a
// certificate the program stays as it is, signed ad hoc.
func (s *Signer) Apple(ctx context.Context, dir, name string, data []byte) (signed []byte, how string, err error) {
	if s.AppleP12 == "" && s.AppleIdentity == "" {
		s.Say("%s: signed ad hoc only, for there is no --apple-p12 and no --apple-identity", name)
		return data, "Mach-O, ad hoc", nil
	}
	path := filepath.Join(dir, "bellman-bridge-darwin")
	defer os.Remove(path)
	if err := os.WriteFile(path, data, 0o700); err != nil { //nolint:gosec // it is a program
		return nil, "", err
	}
	notarized, err := s.developerID(ctx, dir, path)
	if err != nil {
		return nil, "", fmt.Errorf("sign for macOS: %w", err)
	}
	if signed, err = os.ReadFile(path); err == nil {
		err = intact(signed)
	}
	if err != nil {
		return nil, "", fmt.Errorf("sign for macOS: %w", err)
	}
	how = "Mach-O, Developer ID"
	if notarized {
		how += ", notarized"
	}
	s.Say("%s: signed (%s)", name, how)
	return signed, how, nil
}

// developerID signs the program at path in its place. Quill takes its
// passwords from its environment, codesign from the keychain.
func (s *Signer) developerID(ctx context.Context, dir, path string) (notarized bool, err error) {
	if s.AppleP12 != "" {
		verb := "sign"
		if os.Getenv("QUILL_NOTARY_KEY") != "" {
			verb, notarized = "sign-and-notarize", true
		}
		_, err := program.Run(ctx, nil, "quill", verb, "--p12", s.AppleP12, "--identity", Identifier, path)
		return notarized, err
	}
	_, err = program.Run(ctx, nil, "codesign", "--sign", s.AppleIdentity, "--identifier", Identifier,
		"--options", "runtime", "--timestamp", "--force", path)
	if err != nil || s.NotaryProfile == "" {
		return false, err
	}
	archive := filepath.Join(dir, "notarize.zip")
	defer os.Remove(archive)
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var packed bytes.Buffer
	if err := mcpb.Pack(&packed, []mcpb.File{{Name: filepath.Base(path), Data: data, Executable: true}}); err != nil {
		return false, err
	}
	if err := os.WriteFile(archive, packed.Bytes(), 0o600); err != nil {
		return false, err
	}
	_, err = program.Run(ctx, nil, "xcrun", "notarytool", "submit", archive, "--keychain-profile", s.NotaryProfile, "--wait")
	return err == nil, err
}

// intact makes sure that what comes back from signing runs on both processors:
// a tool that was interrupted has left a file that is neither old nor new.
func intact(data []byte) error {
	slices, err := macho.Slices(data)
	if err != nil {
		return err
	}
	if len(slices) != 2 {
		return errors.New("it no longer holds both processors")
	}
	for _, slice := range slices {
		if err := macho.Verify(slice.Data); err != nil {
			return fmt.Errorf("%s: %w", slice.Arch, err)
		}
	}
	return nil
}
