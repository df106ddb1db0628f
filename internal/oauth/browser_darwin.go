package oauth

import (
	"os/exec"
	"syscall"
)

func launcher(link string) (string, []string, error) {
	return "/usr/bin/open", []string{link}, nil
}

func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
