#!/bin/sh
# Checks a download with nothing but sh, sha256sum and minisign:
#
#   sh build/verify.sh [-p KEYFILE] FILE...
#
# Each FILE must have SHA256SUMS and SHA256SUMS.minisig beside it. The public
# key is the one in this repository, never one that came with the download: so
# take this script from the repository as well.
set -u

case $0 in
*/*) key=${0%/*}/release.pub ;;
*) key=release.pub ;;
esac

usage() {
	echo 'usage: sh verify.sh [-p KEYFILE] FILE...' >&2
	exit 2
}

fail() {
	printf 'FAILED  %s\n' "$1" >&2
	exit 1
}

while getopts p: option; do
	case $option in
	p) key=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

[ -f "$key" ] || fail "there is no public key at $key, so nobody can tell who made this"
command -v minisign >/dev/null 2>&1 || fail 'there is no minisign here (apt-get install minisign, brew install minisign)'
if command -v sha256sum >/dev/null 2>&1; then
	sum() { sha256sum; }
elif command -v shasum >/dev/null 2>&1; then
	sum() { shasum -a 256; }
else
	fail 'there is no sha256sum here'
fi

for file in "$@"; do
	[ -f "$file" ] || fail "$file is not there"
	name=${file##*/}
	case $file in
	*/*) sums=${file%/*}/SHA256SUMS ;;
	*) sums=./SHA256SUMS ;;
	esac
	[ -f "$sums" ] || fail "there is no $sums"
	comment=$(minisign -V -H -Q -p "$key" -m "$sums") || fail "$sums was not signed with the key of the repository"
	want=
	count=0
	while read -r digest entry; do
		if [ "$entry" = "$name" ]; then
			want=$digest
			count=$((count + 1))
		fi
	done <"$sums"
	[ "$count" = 1 ] || fail "$name stands $count times in $sums"
	got=$(sum <"$file") || fail "$file cannot be read"
	[ "${got%% *}" = "$want" ] || fail "$file is not the file that was released"
	printf 'ok      %s (%s)\n' "$file" "$comment"
done
