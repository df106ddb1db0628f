#!/bin/sh
# Starts the Bellman bridge that fits this machine. Claude Desktop runs it as
# "/bin/sh launch.sh", so it needs no execute bit of its own; the binary gets
# one here when the extension was unpacked without modes.
set -u

fail() {
	printf 'bellman: %s\n' "$1" >&2
	exit 1
}

case $0 in
*/*) here=${0%/*} ;;
*) here=. ;;
esac

system=$(uname -s) || fail 'cannot tell which system this is (uname)'
machine=$(uname -m) || fail 'cannot tell which processor this is (uname)'
case $system in
Darwin) name=bellman-bridge-darwin ;;
Linux)
	case $machine in
	x86_64 | amd64) name=bellman-bridge-linux-amd64 ;;
	aarch64 | arm64) name=bellman-bridge-linux-arm64 ;;
	*) fail "there is no bridge for Linux on $machine" ;;
	esac
	;;
*) fail "there is no bridge for $system" ;;
esac

bridge=$here/$name
[ -f "$bridge" ] || fail "this extension was made for another system: it lacks $name"
[ -x "$bridge" ] || chmod u+x "$bridge" || fail "cannot make $bridge executable"
exec "$bridge" "$@"
