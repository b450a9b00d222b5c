#!/bin/bash
# ./run bench worker|streams|memory|placement|kernels|gates|operator [ARGUMENTS]: measurements; method and results are in docs/benchmarks.md
#   worker     drains a preloaded topic of 5 million records through a tumbling sum (broker only): events per CPU-second, peak memory
#   streams    the worker and Kafka Streams on one preloaded topic, in turns (broker only): count and sum in windows, both outputs
#              checked against the generator; about 30 minutes, or two with --quick
#   memory     20 million keys in a pod with 1 GiB (whole bed): every sum right, no kill for want of memory; about 15 minutes
#   placement  the engine with the check of every row's placement and without it, in turns: what the check costs
#   kernels    decode, fold and encode, each alone over fixed input: nanoseconds per record or row
#   gates      the same under valgrind: instructions, compared with tests/benchmarks/kernels.tsv; fails when one takes 3 % more.
#              --update writes what was counted; part of ./run test
#   operator   1,000 apps in phase Running on fake nodes for 10 minutes: writes, requests, memory
# ARGUMENTS go to the benchmark program (turbine-bench): ./run bench worker --records 100000
set -euo pipefail
. "$(dirname "$0")/lib.sh"
bed_with_images() { "$BED/bed.sh" up && "$BED/images.sh"; }

what=${1:-}
[ $# -eq 0 ] || shift
cd "$ROOT"
case $what in
  worker) parts=(kafka) up=("$BED/kafka.sh" up) ;;
  streams)
    # a broker that collects garbage all the time would take the processor from both; one that runs already stays as it is
    export TURBINE_BED_KAFKA_HEAP=${TURBINE_BED_KAFKA_HEAP:-1g}
    parts=(kafka) up=("$BED/kafka.sh" up)
    ;;
  placement | kernels)
    "$BED/packages.sh" build
    build_programs
    exec "$CARGO_TARGET_DIR/release/turbine-bench" "$what" "$@"
    ;;
  gates)
    "$BED/packages.sh" build gates
    build_programs
    exec "$BED/gates.sh" "$@"
    ;;
  memory) parts=(kafka api nodes) up=(bed_with_images) ;;
  operator) parts=() up=("$BED/bed.sh" up) ;;
  *) die "bench: worker, streams, memory, placement, kernels, gates or operator; see ./run help bench" ;;
esac
"$BED/packages.sh" build
"$BED/build.sh" "${parts[@]}"
say "bench: building (seconds when nothing changed)"
build_programs
"${up[@]}"
eval "$("$BED/env.sh")"
exec "$TURBINE_BIN/turbine-bench" "$what" "$@"
