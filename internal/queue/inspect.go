package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Overview is what a queue file says at one moment.
type Overview struct {
	Bridges []Bridge   // the processes that have the file open and live
	Rooms   []RoomView // of the identity, in the order of Memberships
	Waiting Pending    // of the identity
}

// Bridge is a process that has the file open.
type Bridge struct {
	PID   int
	Since time.Time // when it opened the file
	Rooms int       // how many it watches, whoever's they are
}

// RoomView is a room and how its watch does.
type RoomView struct {
	Room      string
	State     State
	Since     time.Time     // of State; zero when nobody can say
	Holder    int           // the PID of the living bridge that watches it, else 0
	LastEvent time.Time     // by the service's clock; zero while there was none
	Lag       time.Duration // from LastEvent to this machine's having it, by both clocks
	Problem   string        // the last one, which may be over
	ProblemAt time.Time
	Members   []MemberView
}

// MemberView is a membership and how many of its events no claim holds.
type MemberView struct {
	Membership

	Waiting int
}

// Inspect reads the queue file at path without taking part in it: it is no
// owner, holds nothing up, and works from any process while bridges run and
// while none does. Whoever holds no lock any more is shown as gone. A file of
// an older version is brought up to date first; nothing else is written. It
// returns Open's refusals, and fs.ErrNotExist where there is no file; with an
// unknown identity there are no rooms and the rest is told.
func Inspect(ctx context.Context, path string, id Identity) (o Overview, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("inspect queue %s: %w", path, err)
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return Overview{}, err
	}
	if kind := networkFileSystem(filepath.Dir(path)); kind != "" {
		return Overview{}, fmt.Errorf("%w (%s): set BELLMAN_STATE_DIR to a folder on a local disk", ErrNetwork, kind)
	}
	o, err = inspect(ctx, path, id)
	if !errors.Is(err, errOld) {
		return o, err
	}
	q, err := Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return Overview{}, err
	}
	if err := q.Close(); err != nil {
		return Overview{}, err
	}
	return inspect(ctx, path, id)
}

// errOld reports a file of an older version.
var errOld = errors.New("queue: file of an older version")

func inspect(ctx context.Context, path string, id Identity) (o Overview, err error) {
	db, err := sql.Open(driverName, dataSource(path)+"&mode=ro")
	if err != nil {
		return Overview{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := openConn(ctx, db)
	if err != nil {
		return Overview{}, damage(err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	s, err := readStamp(ctx, c)
	switch {
	case err != nil:
		return Overview{}, damage(err)
	case s.check() != nil:
		return Overview{}, s.check()
	case s.version < schemaVersion:
		return Overview{}, errOld
	}
	if _, err := c.exec(ctx, "begin"); err != nil { // one moment for all of it
		return Overview{}, err
	}
	defer func() { _, errEnd := c.exec(ctx, "rollback"); err = errors.Join(err, errEnd) }()
	holders, err := o.readBridges(ctx, c, filepath.Dir(path))
	if err == nil {
		err = o.readRooms(ctx, c, id, holders)
	}
	if err == nil {
		o.Waiting, err = pending(ctx, c, id, Filter{})
	}
	return o, damage(err)
}

// readBridges lists the living owners and returns their processes by number.
func (o *Overview) readBridges(ctx context.Context, c *conn, dir string) (map[int64]int, error) {
	pids := make(map[int64]int)
	err := c.each(ctx, "select id, lock, pid, since, (select count(*) from room where owner = o.id) from owner o order by since, id", nil,
		func(scan func(...any) error) error {
			var id, since int64
			var lock string
			var b Bridge
			if err := scan(&id, &lock, &b.PID, &since, &b.Rooms); err != nil {
				return err
			}
			if !free(filepath.Join(dir, filepath.Base(lock))) {
				b.Since = time.UnixMilli(since)
				o.Bridges = append(o.Bridges, b)
				pids[id] = b.PID
			}
			return nil
		})
	return pids, err
}

func (o *Overview) readRooms(ctx context.Context, c *conn, id Identity, holders map[int64]int) error {
	at := make(map[string]int)
	return c.each(ctx, `select r.name, m.name, m.fetched, m.touched, m.ended, r.paused_events is not null,
		m.events - (select coalesce(sum(h.events), 0) from hold h where h.member = m.id), m.last_key, m.arrived,
		coalesce(r.owner, 0), r.state, r.since, r.problem, r.problem_at`+fromMemberships,
		[]any{id.Server, id.User}, func(scan func(...any) error) error {
			var r RoomView
			var v MemberView
			var touched, key, arrived, owner, since, problemAt int64
			err := scan(&r.Room, &v.ID, &v.Fetched, &touched, &v.Ended, &v.Full, &v.Waiting, &key, &arrived,
				&owner, &r.State, &since, &r.Problem, &problemAt)
			if err != nil {
				return err
			}
			v.Room, v.Touched = r.Room, time.UnixMilli(touched)
			i, known := at[r.Room]
			if !known {
				i = len(o.Rooms)
				at[r.Room] = i
				if r.Problem != "" {
					r.ProblemAt = time.UnixMilli(problemAt)
				}
				r.Holder = holders[owner]
				r.settle(v.Membership, since)
				o.Rooms = append(o.Rooms, r)
			}
			o.Rooms[i].add(v, key, arrived)
			return nil
		})
}

// settle finds the state of a room from what its watch has said and from m,
// which is the member of it that is watched longest.
func (r *RoomView) settle(m Membership, since int64) {
	said := r.State
	switch {
	case m.Ended != "":
		r.State = StateEnded
	case m.Full:
		r.State = StatePaused
	case !m.Watchable(time.Now()):
		r.State = StateIdle
	case r.Holder == 0:
		r.State = StateUnwatched
	case said == "":
		r.State = StateConnecting
	default:
		r.Since = time.UnixMilli(since)
	}
}

// add adds a member, whose last event has this sort key and arrived then.
func (r *RoomView) add(v MemberView, key, arrived int64) {
	r.Members = append(r.Members, v)
	if last := time.UnixMicro(key); key > 0 && last.After(r.LastEvent) {
		r.LastEvent, r.Lag = last, 0
		if arrived > 0 {
			r.Lag = max(0, time.UnixMilli(arrived).Sub(last))
		}
	}
}
