package queue

import "context"

// load is how much a room and the whole file hold.
type load struct{ events, bytes, totalEvents, totalBytes int64 }

func readLoad(ctx context.Context, c *conn, room int64) (load, error) {
	var l load
	_, err := c.get(ctx, `select coalesce(sum(m.events), 0), coalesce(sum(m.bytes), 0), t.events, t.bytes
		from total t left join member m on m.room = ? where t.id = 1`,
		[]any{room}, &l.events, &l.bytes, &l.totalEvents, &l.totalBytes)
	return l, err
}

// fits reports whether a batch can be added. A room that is empty takes any
// batch as far as its own bound goes, and an empty file any at all.
func (s settings) fits(l load, events, bytes int64) bool {
	room := l.events == 0 || (l.events+events <= s.roomEvents && l.bytes+bytes <= s.roomBytes)
	total := l.totalEvents == 0 || (l.totalEvents+events <= s.totalEvents && l.totalBytes+bytes <= s.totalBytes)
	return room && total
}

// drained reports whether a paused room goes on: what it was refused fits, and
// a quarter of each bound is free, so that it does not pause again at once.
func (s settings) drained(l load, events, bytes int64) bool {
	room := l.events == 0 || (l.events <= s.roomEvents/4*3 && l.bytes <= s.roomBytes/4*3)
	total := l.totalEvents == 0 || (l.totalEvents <= s.totalEvents/4*3 && l.totalBytes <= s.totalBytes/4*3)
	return room && total && s.fits(l, events, bytes)
}

// pauseIfFull reports whether fresh does not fit, and then notes what the room
// waits for.
func (q *Queue) pauseIfFull(ctx context.Context, c *conn, room int64, l load, fresh []Event) (bool, error) {
	if len(fresh) == 0 {
		return false, nil
	}
	var bytes int64
	for _, e := range fresh {
		bytes += int64(len(e.Body))
	}
	if q.set.fits(l, int64(len(fresh)), bytes) {
		return false, nil
	}
	_, err := c.exec(ctx, "update room set paused_events = ?, paused_bytes = ? where id = ?", len(fresh), bytes, room)
	if err != nil {
		return true, err
	}
	return true, revise(ctx, c)
}

// resumeDrained lets paused rooms go on where there is space again. Called
// whenever events have gone.
func (q *Queue) resumeDrained(ctx context.Context, c *conn) (bool, error) {
	type paused struct{ room, events, bytes int64 }
	var rooms []paused
	err := c.each(ctx, "select id, paused_events, paused_bytes from room where paused_events > 0", nil,
		func(scan func(...any) error) error {
			var p paused
			err := scan(&p.room, &p.events, &p.bytes)
			rooms = append(rooms, p)
			return err
		})
	if err != nil {
		return false, err
	}
	resumed := false
	for _, p := range rooms {
		l, err := readLoad(ctx, c, p.room)
		if err != nil {
			return false, err
		}
		if !q.set.drained(l, p.events, p.bytes) {
			continue
		}
		resumed = true
		_, err = c.exec(ctx, "update room set paused_events = null, paused_bytes = null where id = ?", p.room)
		if err != nil {
			return false, err
		}
	}
	if !resumed {
		return false, nil
	}
	return true, revise(ctx, c)
}
