#!/bin/sh
# Runs every benchmark of a bench build, one after the other: tests/bench/run.sh BUILD_DIR
set -eu
build=$1
cd -- "$(dirname -- "$0")/../.."
uname -srm
grep -m 1 'model name' /proc/cpuinfo || true
echo "load average before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
count=0
for bench in $(find "$build/tests/bench" -maxdepth 1 -type f -name '*_bench' -perm -u+x | sort); do
  printf '\n== %s\n' "$(basename "$bench")"
  case $bench in
    */load_bench) "$bench" "$build/bin/foreshockd" rules ;;
    *) "$bench" ;;
  esac
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "bench: no benchmark in $build/tests/bench" >&2; exit 1; }
printf '\n== store_peers\n'
/usr/bin/python3 tests/bench/store_peers.py "$build/tests/bench/store_feed" tests/data/captures/*.fscap
printf '\n== python_overhead\n'
export PYTHONPATH="$build/python"
/usr/bin/python3 tests/bench/python_overhead.py "$build/bin/foreshockd"
printf '\n== proxy\n'
/usr/bin/python3 tests/bench/proxy_bench.py "$build/bin/foreshock-proxy" --directory="$build"
printf '\n== web\n'
/usr/bin/python3 tests/bench/web_bench.py "$build/bin/foreshockd"
printf '\n== pages\n'
/usr/bin/python3 tests/bench/pages_bench.py "$build/bin/foreshockd" "$build/bin/foreshock-load"
printf '\n== restart\n'
/usr/bin/python3 tests/bench/restart_bench.py "$build/bin/foreshockd"
