package room

import "time"

// Sleep makes the Watcher find that the wall clock is ahead by d. It is called
// before Run.
func (w *Watcher) Sleep(d func() time.Duration) {
	w.clock = func() reading {
		r := readClocks()
		r.wall = r.wall.Add(d())
		return r
	}
}

// Slept is slept for readings of the two clocks that lie this far apart.
func Slept(wall, running time.Duration) bool {
	return slept(reading{}, reading{wall: time.Time{}.Add(wall), running: running})
}

// Join makes the Watcher find these addresses on the machine. It is called
// before Run.
func (w *Watcher) Join(addresses func() string) { w.network = addresses }

// LocalAddresses is what a Watcher compares.
func LocalAddresses() string { return localAddresses() }
