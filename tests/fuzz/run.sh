#!/bin/sh
# Runs every libFuzzer target of a fuzz build: tests/fuzz/run.sh BUILD_DIR SECONDS_EACH
# New inputs stay in BUILD_DIR/corpus/TARGET; a crash ends the run and leaves its input there.
set -eu
build=$1
seconds=$2
count=0
for target in $(find "$build" -type f -name '*_fuzz' -perm -u+x | sort); do
  name=$(basename "$target")
  corpus=$build/corpus/$name
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$corpus/crash-" "$corpus"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "fuzz: no target in $build" >&2; exit 1; }
echo "fuzz: $count targets, no crash"
