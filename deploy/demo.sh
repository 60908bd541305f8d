#!/bin/bash
# What `make run` does after building: starts a daemon on a fresh data directory, build/demo (beside
# another one a folder of its own, which goes when it ends),
# replays a recorded run in which something goes wrong, shows what the daemon makes of it, and stays
# up until Ctrl-C.
#
#   ONCE=1        end by itself; exit 0 only if the warning came before the loss broke
#   CAPTURE=FILE  another capture (.fscap or .jsonl)
#   SPEED=20x     as `foreshock replay --speed`; default full
#   BIN=DIR       where the programs are; default build/release/bin
set -euo pipefail
cd -- "$(dirname -- "$0")/.."

bin=${BIN:-build/release/bin}
capture=${CAPTURE:-tests/data/captures/f_attn_201.fscap}
speed=${SPEED:-full}
once=${ONCE:-}
demo=build/demo
temporary=''
ready_seconds=15

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\033[1m' dim=$'\033[2m' plain=$'\033[0m'; else bold='' dim='' plain=''; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

[ -r "$capture" ] || fail "cannot read the capture $capture"

daemon=''
# Its exit code: 1 says that something could not be committed.
stop_daemon() {
  local stopped=0
  [ -n "$daemon" ] || return 0
  kill -TERM "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || stopped=$?
  daemon=''
  return "$stopped"
}
clean_up() {
  stop_daemon || true
  [ -z "$temporary" ] || rm -rf "$temporary"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p build
# The well-known ports if nobody has them. Else free ones, and another folder: the daemon that has the
# ports may be that of another `make run`, whose data must stay.
port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
grpc_port=7317
http_port=7318
if port_taken $grpc_port || port_taken $http_port; then
  grpc_port=0
  http_port=0
  temporary=$(mktemp -d build/demo-XXXXXX)
  demo=$temporary
fi

rm -rf "$demo"
mkdir -p "$demo"
title "1. A daemon of its own"
rules=()
for file in rules/*.yaml; do rules+=(--rules "$file"); done
# A process group of its own: Ctrl-C reaches this script, which then stops the daemon in order.
set -m
"$bin/foreshockd" --data-dir "$demo/data" "${rules[@]}" \
  --listen-grpc "127.0.0.1:$grpc_port" --listen-http "127.0.0.1:$http_port" \
  --address-file "$demo/address" >"$demo/foreshockd.log" 2>&1 &
daemon=$!
set +m
for ((i = 0; i < ready_seconds * 20; i++)); do
  [ -s "$demo/address" ] && break
  kill -0 "$daemon" 2>/dev/null || { daemon=''; cat "$demo/foreshockd.log" >&2; fail "foreshockd did not start"; }
  sleep 0.05
done
[ -s "$demo/address" ] || { cat "$demo/foreshockd.log" >&2; fail "foreshockd was not ready within $ready_seconds s"; }
grpc=$(sed -n 's/^grpc=//p' "$demo/address")
http=$(sed -n 's/^http=//p' "$demo/address")
export FORESHOCK_SERVER=$grpc FORESHOCK_HTTP=$http
note "foreshockd listens on $grpc (gRPC) and $http (HTTP), its data and log are in $demo/"

title "2. A recorded training run, pushed over gRPC as its ranks once did"
note "$capture; a row every 100 steps as the daemon computes it, alerts where they come."
note "QK entropy: the share of directions that the update of the attention operator uses (1: all),"
note "mean over a layer's heads, lowest layer (L1 is layer 1). A biased attention loses directions"
note "long before the loss shows anything."
printf '\n'
run=$(basename -- "$capture")
run=${run%.*}
"$bin/foreshock" replay "$capture" --run "$run" --watch --speed "$speed"

title "3. Was the warning early?"
code=0
"$bin/foreshock" summary "$run" --require-lead || code=$?

if [ -n "$once" ]; then
  stop_daemon || fail "foreshockd did not stop in order (exit code $?), see $demo/foreshockd.log"
  exit "$code"
fi

title "4. Look around"
look() { printf '  %-63s %s\n' "$1" "${2-}"; }
look "http://$http/" 'the page: the run, the alert, every indicator'
look "http://$http/metrics" 'what Prometheus scrapes'
look "http://$http/api/v1/runs" 'the same data as JSON'
look "export FORESHOCK_SERVER=$grpc FORESHOCK_HTTP=$http PATH=\$PATH:$PWD/$bin"
look 'foreshock alerts --brief' 'what fires, a line each'
look 'foreshock alerts' 'every alert with its evidence'
look "foreshock query $run attn.delta2.entropy_ratio_l1 --layer 1 --steps 300:600"
look "foreshock query $run train.loss --unit none --steps 1380:1400"
look "foreshock query $run --list" 'all indicators there are'
look 'foreshock replay tests/data/captures/h_const_101.fscap --watch' 'a healthy run: no warning'
look 'foreshock doctor' 'is everything all right?'
printf '\nThe daemon stays up. Ctrl-C stops it.\n'
trap 'exit 0' INT TERM
wait "$daemon" || true
