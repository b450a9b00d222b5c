#!/bin/bash
# ./run demo [--keep]: see it work on this machine. Starts Kubernetes and Kafka, installs the chart, applies an app that counts
# and averages per key and minute, feeds it, shows results, kills a worker with SIGKILL and checks that nothing was lost.
# About 45 minutes the first time on 2 cores (everything is compiled once), then under 2 minutes.
#   --keep   leave everything up at the end
# ./run demo --local: without Kubernetes and Kafka, in one process, seconds after the build
# ./run demo --context NAME --kafka HOST:PORT --image REPO:TAG [--operator-image REPO:TAG]: on a cluster and a broker that exist;
#   starts nothing. Push the images before: docker build --target worker|operator. The operator's image defaults to
#   REPO with `worker` replaced by `operator`.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
began=$(now_ms)
records=200000 keys=1000 partitions=12
namespace=turbine-demo system=turbine-system

local_run=no keep=no context='' kafka='' image='' operator_image=''
while [ $# -gt 0 ]; do
  case $1 in
    --local) local_run=yes ;;
    --keep) keep=yes ;;
    --context) context=${2:?NAME} && shift ;;
    --kafka) kafka=${2:?HOST:PORT} && shift ;;
    --image) image=${2:?REPO:TAG} && shift ;;
    --operator-image) operator_image=${2:?REPO:TAG} && shift ;;
    *) die "demo: unknown argument $1; see ./run help demo" ;;
  esac
  shift
done

step() { say; say "== $* (after $(seconds_since "$began") s)"; }
app() { sed "s|bootstrapServers: .*|bootstrapServers: $kafka|" docs/examples/quickstart.yaml; }
testgen() { "$CARGO_TARGET_DIR/release/turbine-testgen" "$@"; }

compile() {
  "$BED/packages.sh" build
  progress 1800 "cargo build (release)" "$TURBINE_CACHE/logs/demo-build.log" cargo build --release --locked --workspace --bins
}
