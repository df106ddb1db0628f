package oauth

import (
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// launcher names rundll32 by its full path: a program of that name in the
// working directory must not be run in its place, and cmd's start would read
// an ampersand in the link as a command of its own.
func launcher(link string) (string, []string, error) {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "rundll32.exe"), []string{"url.dll,FileProtocolHandler", link}, nil
}

func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}
