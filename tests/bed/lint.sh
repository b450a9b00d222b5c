#!/bin/bash
# ./run lint: formatting, shell scripts, clippy, documentation, dependencies (licences, bans, sources, advisories).
# Warnings are errors. Everything is checked even if something fails. Warm about 20 s; the first time about 10 minutes.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT" || exit 1
"$BED/packages.sh" build lint || exit 1
build_rocksdb || exit 1
failed=()

check() {
  local name=$1 start
  shift
  start=$(now_ms)
  if "$@"; then say "  $name: ok ($(seconds_since "$start") s)"; else
    say "  $name: FAILED ($(seconds_since "$start") s)"
    failed+=("$name")
  fi
}

# the tool is compiled once and needs no network afterwards; what compiled it is not kept
cargo_deny() {
  local root=$TOOLS/cargo-deny
  if [ ! -x "$root/bin/cargo-deny" ]; then
    (progress 240 "cargo install of cargo-deny" "$TURBINE_CACHE/logs/cargo-deny.log" \
      env CARGO_TARGET_DIR="$root/target" CARGO_PROFILE_RELEASE_LTO=off cargo install --locked --root "$root" cargo-deny) || return 1
    rm -rf "$root/target"
  fi
  PATH=$root/bin:$PATH cargo deny "$@"
}
dependencies() { cargo_deny --offline --all-features check bans licenses sources; }
# the database of advisories lives on the network; without it this check cannot run, and says so
advisories() {
  if ! cargo_deny fetch db >"$TURBINE_CACHE/logs/advisories.log" 2>&1; then
    touch "$TURBINE_CACHE/logs/advisories.skipped"
    say "  advisories: NOT CHECKED, the advisory database cannot be fetched ($(tail -n 1 "$TURBINE_CACHE/logs/advisories.log" | cut -c1-120))"
    return 0
  fi
  cargo_deny --offline --all-features check advisories
}

mkdir -p "$TURBINE_CACHE/logs"
check formatting cargo fmt --all --check
check "shell scripts" shellcheck -x run .ci/run tests/bed/*.sh tests/bed/*/*.sh
check clippy cargo clippy --quiet "${CARGO_SELECTION[@]}" --all-targets -- -D warnings
check "clippy with fault points" cargo clippy --quiet "${CARGO_SELECTION[@]}" --bin turbine-worker-faults --examples --features turbine-runtime/fault-points -- -D warnings
check documentation env RUSTDOCFLAGS="-D warnings" cargo doc --quiet "${CARGO_SELECTION[@]}" --no-deps --lib --bins --examples
check dependencies dependencies
check advisories advisories

[ ${#failed[@]} -eq 0 ] || die "lint: ${failed[*]} failed"
