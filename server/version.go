package main

import "runtime/debug"

// version is set by the release build.
var version string

// currentVersion names this build: the release, else what Go recorded.
func currentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
