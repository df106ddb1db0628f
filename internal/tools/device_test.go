package tools_test

import (
	"testing"

	"bellman.sh/desktop/internal/tools"
)

// What Windows reads as a device or as a stream is known for one under every
// spelling, and no name of a file is.
func TestNamesOfDevicesAndStreams(t *testing.T) {
	for _, name := range []string{
		"NUL", "nul", "Nul.txt", "nul.tar.gz", "CON", "con .md", "AUX ", "prn.", "conin$", "CONOUT$.txt",
		"COM1", "com0.png", "COM¹", "lpt³.md", "LPT9", `sub\LPT9.md`, "sub/nul", "nul/a.md", `C:\x\aux.md`, "c:con",
		"a.txt:hidden", "a.txt::$DATA", `C:\a.txt:x`, `sub:x\a.md`, "a:b:c",
		`\\.\NUL`, `\\.\C:\a.md`, `\\?\C:\Windows\win.ini`, "//?/C:/a.md", `\??\C:\a.md`, `\\server\share\NUL`,
	} {
		if !tools.NamesDevice(name) {
			t.Errorf("%s passes for a file", name)
		}
	}
	for _, name := range []string{
		"a.md", "null.md", "console.txt", "com.md", "COM10", "lpt", "communal", "xnul", `C:\Users\Ünï Cödé\a.md`, "C:a.md",
		`\\server\share\a.md`, "../sub/./a.md", "", ".", "..", ".nul", "auxiliary", "¹.md", "a nul", "$con",
	} {
		if tools.NamesDevice(name) {
			t.Errorf("%s passes for a device", name)
		}
	}
}
