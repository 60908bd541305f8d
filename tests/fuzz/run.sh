#!/bin/sh
# Runs every libFuzzer target of a fuzz build: tests/fuzz/run.sh BUILD_DIR SECONDS_EACH
# It starts from the seeds of the smoke test; new inputs stay in BUILD_DIR/corpus/TARGET. A crash ends
# the run and leaves its input in BUILD_DIR/crashes.
set -eu
build=$1
seconds=$2
count=0
mkdir -p "$build/crashes"
for target in $(find "$build" -type f -name '*_fuzz' -perm -u+x | sort); do
  name=$(basename "$target")
  corpus=$build/corpus/$name
  seeds=$(cat "$build/seeds/$name")
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$build/crashes/$name-" \
            "$corpus" "$seeds"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "fuzz: no target in $build" >&2; exit 1; }
echo "fuzz: $count targets, no crash"
