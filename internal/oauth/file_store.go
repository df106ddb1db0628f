package oauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// fileStore implements Store.
type fileStore struct{ path string }

// FileStore returns a Store that keeps the item in the clear in the file at
// path, for a machine without a keychain whose owner has asked for it. The
// file has mode 0600 in a directory of mode 0700, and is refused on reading
// when others could have read or replaced it.
func FileStore(path string) Store { //nolint:ireturn // A Store is what the caller chooses between; there is nothing more to see.
	return &fileStore{path: path}
}

func (f *fileStore) Get(context.Context) ([]byte, error) {
	b, info, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credential file: %w", err)
	}
	if err := ownedAlone(f.path, info); err != nil {
		return nil, fmt.Errorf("read credential file: %w", err)
	}
	return b, nil
}

func (f *fileStore) Set(ctx context.Context, item []byte) error {
	if err := makeDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	if err := writeFile(f.path, item); err != nil {
		return err
	}
	back, err := f.Get(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(back, item) {
		return fmt.Errorf("credential file %s does not hold what was written", f.path)
	}
	return nil
}

func (f *fileStore) Delete(context.Context) error {
	if err := removeFile(f.path); err != nil {
		return fmt.Errorf("delete credential file: %w", err)
	}
	return nil
}

func (f *fileStore) Name() string { return "file" }
