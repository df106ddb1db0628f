package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"bellman.sh/desktop/build/minisign"
	"bellman.sh/desktop/build/program"
	"bellman.sh/desktop/build/signer"
	"bellman.sh/desktop/build/sums"
)

// The public keys of our releases. They stand in the repository and are never
// taken from beside what is verified.
const (
	pinnedKey    = "build/release.pub"
	pinnedCosign = "build/cosign.pub"
)

// verify is the subcommand: it checks files of a release, or all of one when a
// folder is named, and says what it checked and what it could not.
func verify(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("verify")
	key := flags.String("key", pinnedKey, "")
	cosign := flags.String("cosign-key", pinnedCosign, "")
	ca := flags.String("ca", "", "")
	unsigned := flags.Bool("unsigned", false, "")
	if err := parseFlags(flags, args, 1<<10); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return &usageError{"which files?"}
	}
	v := &verifier{t: t, keyFile: *key, cosignFile: *cosign, ca: *ca, unsigned: *unsigned, lists: map[string]sums.List{}}
	for _, path := range flags.Args() {
		v.path(ctx, path)
	}
	if v.failed > 0 {
		return fmt.Errorf("%d of %d checks failed", v.failed, v.failed+v.passed)
	}
	fmt.Fprintf(t.out, "verified: %d checks passed\n", v.passed)
	return nil
}

// verifier keeps count of what was checked. Nothing it reads decides what it
// trusts: the key and the authorities come from the person who runs it.
type verifier struct {
	t              terminal
	keyFile        string
	cosignFile     string
	ca             string
	unsigned       bool
	lists          map[string]sums.List // by folder
	passed, failed int
}

// check counts and shows one outcome.
func (v *verifier) check(what string, err error) bool {
	if err != nil {
		v.failed++
		fmt.Fprintf(v.t.out, "FAILED       %s: %v\n", what, err)
		return false
	}
	v.passed++
	fmt.Fprintf(v.t.out, "ok           %s\n", what)
	return true
}

func (v *verifier) skip(what, why string) {
	fmt.Fprintf(v.t.out, "not checked  %s: %s\n", what, why)
}

// path checks one file, or every file that the sums of a folder name.
func (v *verifier) path(ctx context.Context, path string) {
	info, err := os.Stat(path)
	if err != nil {
		v.check(path, err)
		return
	}
	if !info.IsDir() {
		v.file(ctx, path)
		return
	}
	list, ok := v.list(ctx, path)
	if !ok {
		return
	}
	v.check(path+" holds nothing that is not in the sums", unlisted(path, list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		v.file(ctx, filepath.Join(path, name))
	}
}

// unlisted finds a file in a folder that its sums do not name.
func unlisted(dir string, list sums.List) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		beside := []string{sums.Name, sums.Name + signer.MinisignSuffix, sums.Name + signer.CosignSuffix}
		if _, ok := list[e.Name()]; !ok && !slices.Contains(beside, e.Name()) {
			return fmt.Errorf("there is %s", e.Name())
		}
	}
	return nil
}

func (v *verifier) file(ctx context.Context, path string) {
	list, ok := v.list(ctx, filepath.Dir(path))
	if !ok || !v.check(path+" is the file in the sums", list.Check(path)) {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		v.check(path, err)
		return
	}
	v.content(ctx, path, data)
}

// list returns the sums of a folder once their signature is checked. It is
// checked and shown once a folder.
func (v *verifier) list(ctx context.Context, dir string) (sums.List, bool) {
	if list, seen := v.lists[dir]; seen {
		return list, list != nil
	}
	list, err := v.readList(ctx, filepath.Join(dir, sums.Name))
	if err != nil {
		v.check(filepath.Join(dir, sums.Name), err)
		list = nil
	}
	v.lists[dir] = list
	return list, list != nil
}

func (v *verifier) readList(ctx context.Context, path string) (sums.List, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if v.unsigned {
		v.skip(path, "you asked not to check who made it")
		return sums.Parse(text)
	}
	key, err := v.key()
	if err != nil {
		return nil, err
	}
	signature, err := os.ReadFile(path + signer.MinisignSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("it is not signed; --unsigned checks the sums alone, which proves nothing about who made them")
	}
	if err != nil {
		return nil, err
	}
	comment, err := key.Verify(text, string(signature))
	if err != nil {
		return nil, err
	}
	v.check(fmt.Sprintf("%s is signed by %s (%s)", path, key, comment), nil)
	v.cosign(ctx, path)
	return sums.Parse(text)
}

// cosign checks the second signature over the sums, where there is one and
// somebody to check it.
func (v *verifier) cosign(ctx context.Context, path string) {
	what := path + ": signature of cosign's"
	if _, err := os.Stat(path + signer.CosignSuffix); err != nil {
		v.skip(what, "it carries none")
		return
	}
	if _, err := os.Stat(v.cosignFile); err != nil {
		v.skip(what, "no public key at "+v.cosignFile)
		return
	}
	if err := program.Need("cosign"); err != nil {
		v.skip(what, err.Error())
		return
	}
	_, err := program.Run(ctx, nil, "cosign", "verify-blob", "--key", v.cosignFile,
		"--bundle", path+signer.CosignSuffix, "--insecure-ignore-tlog=true", path)
	v.check(what, err)
}

func (v *verifier) key() (minisign.PublicKey, error) {
	text, err := os.ReadFile(v.keyFile)
	if errors.Is(err, os.ErrNotExist) {
		return minisign.PublicKey{}, fmt.Errorf("no public key at %s, so nobody can tell who made this; see docs/RELEASE.md", v.keyFile)
	}
	if err != nil {
		return minisign.PublicKey{}, err
	}
	return minisign.ParsePublicKey(string(text))
}
