# shellcheck shell=bash disable=SC2034  # what is set here is read by the scripts that source this
# Paths, messages and small helpers that every script of the bed shares. Sourced, never run.

BED=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$BED/../.." && pwd)
TURBINE_CACHE=${TURBINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/turbine}
STATE=$TURBINE_CACHE/bed/state
# The cluster of brokers that kafka.sh acts on: none is the bed's; another name is a cluster beside it, with its own folder and ports.
KAFKA_CLUSTER=${TURBINE_BED_KAFKA:-}
KAFKA_STATE=$STATE/kafka${KAFKA_CLUSTER:+-$KAFKA_CLUSTER}
TOOLS=$TURBINE_CACHE/tools
export TURBINE_CACHE CARGO_TARGET_DIR=$TURBINE_CACHE/target

# The host's end of the pod network, the address of node 1 and the address of the brokers. The last
# one sits on the loopback device, so that it outlives the cluster and is the same for host and pods.
HOST_IP=10.98.0.1
API_IP=10.98.0.2
KAFKA_IP=10.97.0.1
MAX_NODES=3

say() { printf '%s\n' "$*"; }
note() { printf '%s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

now_ms() { date +%s%3N; }
# seconds_since MS: elapsed time with one decimal
seconds_since() { local ms=$(($(now_ms) - $1)); printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100)); }

# wait_until SECONDS WHAT COMMAND...: polls until the command succeeds; WHAT names it in the error
wait_until() {
  local deadline=$(($(now_ms) + $1 * 1000)) what=$2
  shift 2
  until "$@"; do
    (($(now_ms) < deadline)) || { note "error: $what did not happen in time"; return 1; }
    sleep 0.1
  done
}

# progress SECONDS-EXPECTED WHAT LOG COMMAND...: runs a long step with its output in LOG and prints a
# line every 30 s, so that nobody has to guess whether it still works
progress() {
  local expected=$1 what=$2 log=$3 start
  shift 3
  start=$(now_ms)
  mkdir -p "$(dirname "$log")"
  say "  $what: started (about $expected s when nothing is cached; log $log)"
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$! last=$start
  while kill -0 $pid 2>/dev/null; do
    sleep 0.5
    if (($(now_ms) - last >= 30000)); then
      last=$(now_ms)
      say "  $what: $(seconds_since "$start") s ... $(tail -n 1 "$log" 2>/dev/null | cut -c1-100)"
    fi
  done
  if ! wait $pid; then
    tail -n 20 "$log" >&2
    die "$what failed; the whole log is $log"
  fi
  say "  $what: done in $(seconds_since "$start") s"
}

# hash_of FILE...: short hash of the content of files
hash_of() { cat "$@" | sha256sum | cut -c1-16; }

# What is built once is kept under a key of everything that can change the result.
kafka_key() { hash_of "$BED/kafka/pom.xml"; }
kafka_libs() { printf '%s/bed/kafka-%s/libs' "$TURBINE_CACHE" "$(kafka_key)"; }
# go_key NAME: sources and build script of one Go program, and the toolchain
go_key() { { cat "$BED/$1"/*; go env GOVERSION GOARCH; } | sha256sum | cut -c1-16; }
go_dir() { printf '%s/bed/%s-%s' "$TURBINE_CACHE" "$1" "$(go_key "$1")"; }
# one folder of links to the built programs: what the scripts call and what goes into PATH
BIN=$TURBINE_CACHE/bed/bin

# RocksDB is compiled by a script of ours (why: rocksdb/build.sh), and the crate's build links the result.
rocksdb_dir() {
  local key
  key=$({ cat "$BED/rocksdb/build.sh"; grep -A 2 -e '^name = "rust-librocksdb-sys"' -e '^name = "lz4-sys"' "$ROOT/Cargo.lock"; g++ -dumpfullversion -dumpmachine; } | sha256sum | cut -c1-16)
  printf '%s/rocksdb-%s' "$TURBINE_CACHE" "$key"
}
# Cargo goes by the times of files. Another checkout of the project that shares this cache may have younger ones, and its
# programs, with its paths in them, would be taken for those of this one.
claim_target() {
  local mark=$CARGO_TARGET_DIR/checkout
  [ "$(cat "$mark" 2>/dev/null)" != "$ROOT" ] || return 0
  rm -rf "$CARGO_TARGET_DIR"/*/.fingerprint/turbine-*
  mkdir -p "$CARGO_TARGET_DIR" && printf '%s' "$ROOT" >"$mark"
}
build_rocksdb() {
  local dir
  claim_target
  dir=$(rocksdb_dir)
  (
    flock 9
    [ ! -e "$dir/.complete" ] || exit 0
    rm -rf "$TURBINE_CACHE"/rocksdb-*
    progress 300 "g++ of RocksDB" "$TURBINE_CACHE/logs/rocksdb.log" "$BED/rocksdb/build.sh" "$dir"
    touch "$dir/.complete"
  ) 9>"$TURBINE_CACHE/rocksdb.lock" || return 1
  export ROCKSDB_LIB_DIR=$dir/lib ROCKSDB_INCLUDE_DIR=$dir/include ROCKSDB_STATIC=1
}

# Every call of cargo selects the whole workspace, and one kind of target that takes development dependencies (`--examples`
# does, and there are none): their features add to those of the programs, and with any other selection RocksDB and half of
# the dependencies would be compiled a second time.
CARGO_SELECTION=(--release --locked --workspace)
build_programs() { build_rocksdb && cargo build "${CARGO_SELECTION[@]}" --bins --examples; }
# The worker that dies where a test says, beside the others. Only the project's own crates are compiled again, under another key.
build_faults() { cargo build "${CARGO_SELECTION[@]}" --bin turbine-worker-faults --examples --features turbine-runtime/fault-points; }

open_port() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# The one address of host and pods. Without the right to set it there are no pods either, and 127.0.0.1 does.
choose_address() {
  if ip -o addr show dev lo 2>/dev/null | grep -qw "$KAFKA_IP" || ip addr replace "$KAFKA_IP/32" dev lo 2>/dev/null; then
    echo "$KAFKA_IP"
  else
    echo 127.0.0.1
  fi
}

is_root() { [ "$(id -u)" = 0 ]; }

# node_alive N: whether the sandbox of node N runs (a recycled pid is not taken for it)
node_alive() {
  local pid
  pid=$(cat "$STATE/run/node$1.pid" 2>/dev/null) && grep -qs node.sh "/proc/$pid/cmdline"
}
api_only_alive() {
  local pid
  pid=$(cat "$STATE/run/api.pid" 2>/dev/null) && grep -qs api.sh "/proc/$pid/cmdline"
}

# cluster_mode: full (nodes that run pods), api (API server and etcd alone) or none
cluster_mode() {
  if node_alive 1; then echo full; elif api_only_alive; then echo api; else echo none; fi
}
kubeconfig() {
  if [ "$(cluster_mode)" = api ]; then echo "$STATE/pki/admin-local.kubeconfig"; else echo "$STATE/pki/admin.kubeconfig"; fi
}

# why_no_nodes: prints the reason why this machine cannot run a node; fails when it can
why_no_nodes() {
  is_root || { echo "not root (network namespaces, mounts and cgroups need it)"; return 0; }
  unshare --mount --pid --fork --mount-proc true 2>/dev/null || { echo "no right to make namespaces"; return 0; }
  [ -w /sys/fs/cgroup ] || { echo "cgroups are not writable"; return 0; }
  ip link show lo >/dev/null 2>&1 || { echo "no ip tool (package iproute2)"; return 0; }
  return 1
}
