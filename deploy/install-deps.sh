#!/bin/sh
# Installs the Debian packages of the given sections of deploy/apt-packages.txt that are missing.
#
#   deploy/install-deps.sh build run        # sections; "all" takes every one
#   deploy/install-deps.sh --list build     # only print the packages of the sections
#   deploy/install-deps.sh --missing build  # only print what is not installed
#
# When nothing is missing it touches neither apt nor the network. Works as root or with sudo.
# Exit: 0 all there, 1 could not install, 2 usage.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
list=$here/apt-packages.txt

say() { printf 'install-deps: %s\n' "$*" >&2; }

mode=install
case ${1-} in
  --list) mode=list; shift ;;
  --missing) mode=missing; shift ;;
  -h | --help | '') sed -n '2,9s/^# \{0,1\}//p' "$0"; [ -n "${1-}" ] && exit 0 || exit 2 ;;
esac

sections=$(sed -n 's/^# section: \([a-z]*\).*/\1/p' "$list")
wanted=''
for section in "$@"; do
  [ "$section" = all ] && { wanted=$sections; continue; }
  printf '%s\n' "$sections" | grep -qx -- "$section" || {
    say "no section '$section' in $list; there are:" $sections
    exit 2
  }
  wanted="$wanted $section"
done

packages=$(awk -v wanted=" $(printf '%s ' $wanted)" '
  /^# section: / { on = index(wanted, " " $3 " ") > 0; next }
  /^#/ || NF == 0 { next }
  on { print $1 }' "$list")
[ "$mode" = list ] && { printf '%s\n' "$packages"; exit 0; }

if ! command -v dpkg-query >/dev/null 2>&1; then
  say "this is no Debian-like system (there is no dpkg-query), so nothing was installed."
  say "Foreshock is built and tested on Debian 12. Elsewhere install the equivalents of:"
  say $packages
  exit 1
fi

missing=''
for package in $packages; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ "$mode" = missing ] && { [ -z "$missing" ] || printf '%s\n' $missing; exit 0; }
[ -n "$missing" ] || exit 0

as_root=''
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || {
    say "these packages are missing and this user can install nothing (not root, no sudo):"
    say "run as root: apt-get install --no-install-recommends$missing"
    exit 1
  }
  as_root='sudo'
fi

say "installing with apt-get$( [ -n "$as_root" ] && printf ' (sudo may ask for your password)' ):$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >>"$log" 2>&1; }
install() { apt install --no-install-recommends $missing; }
# A machine with fresh lists needs no update; one without them, or with old ones, does.
if ! install; then
  say "refreshing the package lists first"
  if ! apt update || ! install; then
    tail -n 20 "$log" >&2
    say "apt-get failed, its last words are above. Missing:$missing"
    exit 1
  fi
fi
say "done"
