#!/bin/sh
# Configures a CMake preset if need be and builds targets of it, showing ninja's progress.
#
#   deploy/build.sh PRESET [TARGET...]               # no target: everything
#   deploy/build.sh release-programs foreshockd ...  # the release preset, but a first configuration
#                                                    # leaves the tests out, which need more packages
set -eu
cd -- "$(dirname -- "$0")/.."

preset=$1
shift
tests=ON
if [ "$preset" = release-programs ]; then
  preset=release
  tests=keep
fi

dir=build/$preset
mkdir -p "$dir"
log=$dir/configure.log
configure() {
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    echo "build: configuring the preset '$preset' failed, see above" >&2
    exit 1
  }
}
if [ ! -f "$dir/build.ninja" ]; then
  [ "$tests" = keep ] && tests=OFF
  echo "Configuring $dir"
  configure "-DFORESHOCK_BUILD_TESTS=$tests"
elif [ "$tests" = ON ] && ! grep -q '^FORESHOCK_BUILD_TESTS:BOOL=ON' "$dir/CMakeCache.txt"; then
  configure -DFORESHOCK_BUILD_TESTS=ON
fi

NINJA_STATUS="[%f/%t %es] "
export NINJA_STATUS
[ "$#" -gt 0 ] || set -- all
exec cmake --build "$dir" --target "$@"
