package queue_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bellman.sh/desktop/internal/queue"
)

// tmpfs mounts a small file system of its own, where the test may.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// eat fills the file system of dir to the last byte.
func eat(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk a Put stores nothing and says why, what is there can still be
// read and counted, an acknowledgement is owed, and all goes on when there is
// space again.
func TestAFullDiskPartsNothing(t *testing.T) {
	q, l := leased(t, tmpfs(t, "size=2m"))
	put(t, q, l, 1, 2, 3)
	free := eat(t, filepath.Dir(q.Path()))
	var err error
	cursor := int64(3)
	for err == nil { // the log has room for some more
		cursor++
		_, err = q.Put(t.Context(), l, seat.ID, []queue.Event{event(cursor)}, cursor)
	}
	if !strings.Contains(err.Error(), "full") {
		t.Errorf("put: %v; want the reason", err)
	}
	if why := q.Unstored(); why == nil || !strings.Contains(why.Error(), "full") {
		t.Errorf("unstored: %v; want the reason", why)
	}
	p, err := q.Pending(t.Context(), me, queue.Filter{})
	if err != nil || p.Events != int(cursor)-1 {
		t.Errorf("pending %+v, %v; want %d", p, err, cursor-1)
	}
	if list, err := q.Memberships(t.Context(), me); err != nil || list[0].Fetched != cursor-1 {
		t.Errorf("memberships %+v, %v; want fetched %d", list, err, cursor-1)
	}
	if _, err := q.Claim(t.Context(), me, queue.Filter{}, all); err == nil {
		t.Error("claimed on a full disk")
	}
	if _, err := queue.Open(t.Context(), q.Path(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), q.Path()) {
		t.Errorf("a second bridge: %v; want the reason and the path", err)
	}
	free()
	put(t, q, l, cursor)
	if why := q.Unstored(); why != nil {
		t.Errorf("unstored once there is space: %v", why)
	}
	var want []int64
	for c := int64(1); c <= cursor; c++ {
		want = append(want, c)
	}
	wantCursors(t, claim(t, q), want...)
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// A reply that left while the disk was full does not come again.
func TestAnAcknowledgementOnAFullDiskIsOwed(t *testing.T) {
	q, l := leased(t, tmpfs(t, "size=2m"))
	put(t, q, l, 1, 2)
	b, err := q.Claim(t.Context(), me, queue.Filter{}, queue.Limit{Events: 1})
	if err != nil {
		t.Fatal(err)
	}
	free := eat(t, filepath.Dir(q.Path()))
	for cursor := int64(3); ; cursor++ {
		if _, err := q.Put(t.Context(), l, seat.ID, []queue.Event{event(cursor)}, cursor); err != nil {
			break
		}
	}
	if err := q.Ack(t.Context(), b.Token); err == nil {
		t.Fatal("acknowledged on a full disk")
	}
	free()
	eventually(t, "payment", func() bool {
		again, err := q.Claim(t.Context(), me, queue.Filter{}, queue.Limit{Events: 1})
		if err != nil || again.Token == "" {
			return false
		}
		if again.Deliveries[0].Event.Cursor != 2 || again.Deliveries[0].Redelivered {
			t.Errorf("got %+v, want event 2", again.Deliveries[0])
		}
		return true
	})
}

// A directory that cannot be written is a reason that names it.
func TestAReadOnlyDirectoryIsAReason(t *testing.T) {
	dir := tmpfs(t, "size=2m")
	path := filled(t, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(dir, "new", "queue.db")} {
		q, err := queue.Open(t.Context(), path, slog.New(slog.DiscardHandler))
		if err == nil {
			_ = q.Close()
		}
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("open: %v; want the reason and the path", err)
		}
	}
}

// The largest file this process may write stands for a quota; it needs no root.
func TestAQuotaIsAReason(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, l := leased(t, dir)
	put(t, q, l, 1)
	if err := q.Unlease(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	c := spawn(t, dir, "quota")
	if got := c.line(t); got != "refused, nothing moved" {
		t.Errorf("child %q", got)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
	eventually(t, "lease", func() bool {
		var err error
		l, err = q.Lease(t.Context(), me, seat.Room)
		return err == nil
	})
	list, err := q.Memberships(t.Context(), me)
	if err != nil {
		t.Fatal(err)
	}
	put(t, q, l, list[0].Fetched+1)
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Only file systems over a network are refused, and only for the mount that
// the directory is on.
func TestNetworkFileSystemsAreTold(t *testing.T) {
	for _, c := range []struct{ line, device, want string }{
		{"36 35 0:52 / /home rw,noatime master:1 - nfs4 server:/home rw,vers=4.2", "0:52", "nfs4"},
		{"36 35 0:53 / /mnt/with\\040space rw - fuse.sshfs me@host: rw", "0:53", "fuse.sshfs"},
		{"36 35 0:52 / /home rw - nfs4 server:/home rw", "0:53", ""},
		{"25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw", "8:1", "ext4"},
		{"25 1 8:1 / / rw", "8:1", ""},
		{"", "8:1", ""},
	} {
		if got := queue.MountType(c.line, c.device); got != c.want {
			t.Errorf("%q for %s: %q, want %q", c.line, c.device, got, c.want)
		}
	}
	for _, local := range []string{"ext4", "btrfs", "xfs", "tmpfs", "overlay", "zfs", "apfs", "ecryptfs", "fuseblk"} {
		if slices.Contains(queue.NetworkTypes(), local) {
			t.Errorf("%s is refused", local)
		}
	}
}
