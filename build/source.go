package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bellman.sh/desktop/build/program"
)

// source is what a release is made from.
type source struct {
	version string
	commit  string
	built   time.Time // when the commit was made: the only time in a release
}

// readSource looks at the commit that is checked out. Changes that are not
// committed are an error, because nobody could build the same again; so is a
// tag, if one is given, that does not say v and the version.
func readSource(ctx context.Context, version, tag string) (source, error) {
	if tag != "" && tag != "v"+version {
		return source{}, fmt.Errorf("the tag %s is not that of version %s in manifest.json", tag, version)
	}
	changes, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	if changes != "" {
		first, _, _ := strings.Cut(changes, "\n")
		return source{}, fmt.Errorf("the tree has changes that are not committed, such as %q", strings.TrimSpace(first))
	}
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	stamp, err := git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("read the time of the commit: %w", err)
	}
	return source{version, commit, time.Unix(seconds, 0).UTC()}, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := program.Run(ctx, nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}
