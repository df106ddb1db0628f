#!/bin/sh
# Installs what the tests use and the machine lacks: programs of the system by
# apt-get when this is root on Debian (in CI also by sudo), else it tells which
# ones; packages of Node into .cache/npm, as the lock file pins them. Tests that
# lack a program say so and are skipped, save in CI, where they fail.
set -eu
cd "$(dirname "$0")/.."

missing=
want() { # command, package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
if [ "$(uname -s)" = Linux ]; then
	want gcc gcc
	want gnome-keyring-daemon gnome-keyring
	want dbus-run-session dbus
	want secret-tool libsecret-tools
	want minisign minisign
	want openssl openssl
	want osslsigncode osslsigncode
	want git git
	want llvm-objdump llvm
	want curl curl
	want unzip unzip
	want python3 python3-minimal
	want chromium chromium
	want aarch64-linux-gnu-gcc 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
	want x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32
	want qemu-aarch64-static qemu-user-static
	want wine 'wine wine64'
fi
if [ -n "$missing" ]; then
	as=none
	if [ "$(id -u)" = 0 ]; then
		as=
	elif [ -n "${CI:-}" ] && sudo -n true 2>/dev/null; then
		as=sudo
	fi
	if [ "$as" != none ] && command -v apt-get >/dev/null 2>&1; then
		echo "setup: installing$missing"
		$as apt-get update -q >/dev/null
		# shellcheck disable=SC2086 # a list of package names
		$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
	else
		echo "setup: some tests will be skipped; for all of them: sudo apt-get install$missing" >&2
	fi
fi

if ! command -v npm >/dev/null 2>&1; then
	echo 'setup: no npm: the checks with the official packages will be skipped; install Node 20 or newer' >&2
	exit 0
fi
if ! cmp -s build/npm/package-lock.json .cache/npm/installed.json; then
	echo 'setup: installing the official checkers into .cache/npm'
	mkdir -p .cache/npm
	rm -f .cache/npm/installed.json
	cp build/npm/package.json build/npm/package-lock.json .cache/npm/
	npm ci --prefix .cache/npm --ignore-scripts --no-audit --no-fund --silent
	cp build/npm/package-lock.json .cache/npm/installed.json
fi
