#!/bin/sh
# Builds the programs and the Debian package of them; prints its path.
#
#   deploy/package.sh    # build/release/package/foreshock_VERSION_ARCH.deb
set -eu
cd -- "$(dirname -- "$0")/.."

deploy/build.sh release-programs foreshockd foreshock foreshock-proxy
log=build/release/package.log
rm -rf build/release/package
(cd build/release && cpack -G DEB) >"$log" 2>&1 || {
  cat "$log" >&2
  echo "package: cpack failed, see above" >&2
  exit 1
}
ls build/release/package/foreshock_*.deb
