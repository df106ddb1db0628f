//go:build unix && !darwin

package oauth

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// launcher finds the desktop's own opener. Without a display it would start a
// text browser on a terminal that is not ours, so it is not even tried.
func launcher(link string) (string, []string, error) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("BROWSER") == "" {
		return "", nil, errors.New("this session has no display")
	}
	for _, name := range []string{"xdg-open", "x-www-browser", "sensible-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, []string{link}, nil
		}
	}
	return "", nil, errors.New("neither xdg-open nor another launcher is installed")
}

func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
