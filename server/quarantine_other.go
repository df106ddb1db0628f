//go:build !darwin

package main

// quarantine is known on macOS alone.
func quarantine(string) string { return "" }
