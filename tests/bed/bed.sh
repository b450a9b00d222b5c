#!/bin/bash
# ./run bed VERB: the test bed, a real Kubernetes and a real Kafka on this machine
#   build                        build and fetch what it runs, once (about 10 minutes on 2 cores, then nothing)
#   up [--api-only] [--brokers 3]   build, then start both (about 10 s); safe to start again; NODES=2 for two nodes, at most 3
#                                --api-only: API server and etcd alone, no pods, no root needed
#   down [--keep]                stop both and delete their data; logs stay; --keep keeps the data as well
#   status                       what runs
#   env                          export lines for a shell: eval "$(./run bed env)"
# One broker and its ports: tests/bed/kafka.sh help. Lay-out, times, traps: tests/bed/README.md.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

up() {
  local api=() parts=() brokers=()
  while [ $# -gt 0 ]; do
    case $1 in
      --api-only) api=(--api-only) parts=(kafka api) ;;
      --brokers) brokers=(--brokers "${2:-}"); shift ;;
      *) die "bed up: unknown argument $1" ;;
    esac
    shift
  done
  local start
  start=$(now_ms)
  "$BED/build.sh" "${parts[@]}"
  # what a bed that died has left is not what anybody expects to find; `down --keep` says that it is
  if [ "$(cluster_mode)" = none ] && ! "$BED/kafka.sh" running && [ ! -e "$STATE/kept" ]; then "$BED/bed.sh" down >/dev/null; fi
  rm -f "$STATE/kept"
  say "bed: starting"
  # a broker that runs is left as it is, unless another number is asked for
  if [ ${#brokers[@]} -eq 0 ] && [ -e "$STATE/kafka/brokers" ]; then brokers=(--brokers "$(cat "$STATE/kafka/brokers")"); fi
  "$BED/kafka.sh" up "${brokers[@]}" &
  local kafka=$!
  "$BED/up.sh" "${api[@]}"
  wait $kafka
  say "bed: up after $(seconds_since "$start") s; use it with: eval \"\$(./run bed env)\""
}

down() {
  local start wipe=(--wipe)
  start=$(now_ms)
  if [ "${1:-}" = --keep ]; then wipe=() && mkdir -p "$STATE" && touch "$STATE/kept"; else rm -f "$STATE/kept"; fi
  "$BED/down.sh" "$@"
  keep_kafka_logs
  "$BED/kafka.sh" down "${wipe[@]}"
  say "bed: down after $(seconds_since "$start") s; logs are in $STATE/log"
}

keep_kafka_logs() {
  local log
  for log in "$STATE"/kafka/broker*/broker.log; do
    [ ! -e "$log" ] || { mkdir -p "$STATE/log/kafka" && cp "$log" "$STATE/log/kafka/$(basename "$(dirname "$log")").log"; }
  done
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
  up | down) "$verb" "$@" ;;
  build | status | env) "$BED/$verb.sh" "$@" ;;
  *) note "bed: up, down, status, build or env; see ./run help bed"; exit 2 ;;
esac
