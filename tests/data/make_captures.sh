#!/bin/sh
# Makes the committed captures again from the recorded runs. The options below are the only record of
# how each was thinned; README.md says what they mean. Together they stay under 12 MB.
#
#   tests/data/make_captures.sh FOLDER_WITH_NPZ [OUTPUT_FOLDER]
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 FOLDER_WITH_NPZ [OUTPUT_FOLDER]" >&2
  exit 2
fi
traces=$1
here=$(dirname "$0")
out=${2:-$here/captures}
mkdir -p "$out"

convert() {
  name=$1
  shift
  "$here/trace_to_capture.py" "$traces/$name.npz" "$out/$name.fscap" "$@"
  echo "$out/$name.fscap: $(stat -c %s "$out/$name.fscap") bytes"
}

convert f_attn_201 --layers 1,2                         # every snapshot: the demo
convert f_lrramp_211 --layers 0,1 --snapshot-every 30   # most of the layers must agree
convert f_router_231 --layers 0,1 --factors-every 50    # gates of every snapshot
convert h_const_101 --layers 1 --factors-every 30
convert b_batch_112 --layers 1 --factors-every 30

total=$(cat "$out"/*.fscap | wc -c)
echo "total: $total bytes"
if [ "$total" -gt 12000000 ]; then
  echo "$0: the captures in $out have $total bytes together, allowed are 12000000" >&2
  exit 1
fi
