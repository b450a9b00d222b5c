#!/bin/bash
# ./run test [--unit | --e2e | --faults [N] | --crashes N [SEED]] [--keep] [NAME...]: all checks and tests, with the time of each stage and a count at the end
#   order: lint, release build, unit tests, gates (instruction counts), images, bed up, the demo with its check, a new bed, component
#   tests on the broker and on a small volume, the end-to-end tests, bed down; the tests with three brokers only where they are asked for
#   --unit   lint, build, unit tests and gates: no cluster and no broker
#   --faults build, then the tests with three brokers that die, freeze and cannot be reached, on a cluster of their own; with N also
#            those that take minutes, and N kills of leaders (25 minutes with 50)
#   --crashes  build, then a worker that is killed N times with each guarantee and started again, on the bed's broker alone, and one
#            that dies at every named point of the protocol, N / 50 times at each and at least twice; the same SEED gives the same
#            records, times of kills and passes of points (about 2 s for each kill, 3 minutes for each round of the points beside compilers)
#   --e2e    build, then the end-to-end tests of tests/tests alone; a bed that is up is used as it is and stays
#   --keep   leave the bed up at the end
#   NAME     only tests whose names contain one of these words; no lint, no gates, no demo; the bed as with --e2e
# Tests that need a bed of their own start it anew: what ran in one that was up is gone.
# Where the machine cannot run pods, tests that need them are counted as skipped and named.
# About 50 minutes the first time on 2 cores (dependencies and Kubernetes are compiled once), then about 15.
# shellcheck disable=SC2317  # functions are called through `stage`
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT" || exit 1
logs=$TURBINE_CACHE/logs
mkdir -p "$logs"

lint=yes gates=yes unit=yes e2e=yes demo=yes keep=no anew=yes faults=no kills=0 crashes=no
names=()
for argument in "$@"; do
  case $argument in
    --faults) lint=no gates=no unit=no demo=no e2e=no faults=only ;;
    --crashes) lint=no gates=no unit=no demo=no e2e=no faults=no crashes=yes ;;
    [0-9]*) if [ $crashes = yes ]; then if [ -z "${TURBINE_CRASHES:-}" ]; then export TURBINE_CRASHES=$argument; else export TURBINE_CRASH_SEED=$argument; fi
      elif [ $faults = only ]; then kills=$argument; else names+=("$argument"); fi ;;
    --unit) e2e=no faults=no ;;
    --e2e) lint=no gates=no unit=no demo=no anew=no faults=no ;;
    --keep) keep=yes ;;
    -*) die "test: unknown option $argument; see ./run help test" ;;
    *) names+=("$argument") lint=no gates=no demo=no anew=no; [ $faults = only ] || faults=no ;;
  esac
done

passed=0 failed=0 skipped=0
broken=()
began=$(now_ms)

# stage NAME COMMAND...: a heading, the command, its time; remembers what failed
stage() {
  local name=$1 start status=0
  shift
  start=$(now_ms)
  say "== $name"
  "$@" </dev/null || status=$?
  if [ $status = 0 ]; then say "== $name: $(seconds_since "$start") s"; else
    say "== $name: FAILED after $(seconds_since "$start") s"
    broken+=("$name")
  fi
  return $status
}

# count LOG: adds up cargo's own result lines
count() {
  local line
  line=$(awk '/^test result:/ {for (i = 1; i < NF; i++) {if ($(i+1) ~ /^passed/) p += $i; if ($(i+1) ~ /^failed/) f += $i; if ($(i+1) ~ /^ignored/) s += $i}} END {print p + 0, f + 0, s + 0}' "$1")
  read -r p f s <<<"$line"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# forget_skips: begins the list to which a test that finds that it cannot run here appends its name and the reason; it returns
# and cargo counts it as passed
forget_skips() {
  export TURBINE_SKIP_LOG=$logs/skipped.log
  : >"$TURBINE_SKIP_LOG"
}

# count_skips: takes the tests in that list from those that have passed, and names them
count_skips() {
  local skips
  skips=$(wc -l <"$TURBINE_SKIP_LOG")
  passed=$((passed - skips)) skipped=$((skipped + skips))
  sed 's/^/skipped: /' "$TURBINE_SKIP_LOG"
}

cargo_test() { cargo test "${CARGO_SELECTION[@]}" --no-fail-fast "$@"; }
# targets FILE...: the test targets of these files as options of cargo; that of a folder is its main.rs
targets() {
  local file
  for file in "$@"; do [ ! -e "$file" ] || printf -- '--test\n%s\n' "$(basename "${file%/main.rs}" .rs)"; done
}

compile() { build_programs && build_faults && cargo_test --no-run; }

unit_tests() {
  local own status=0
  mapfile -t own < <(targets {crds,operator,tests/simulator}/tests/{*.rs,*/main.rs} worker/*/tests/{*.rs,*/main.rs})
  # the simulator's long form takes hours wherever it runs: it is not skipped for want of anything
  cargo_test --lib --bins "${own[@]}" -- --skip long_form "${names[@]}" 2>&1 | tee "$logs/unit.log"
  status=${PIPESTATUS[0]}
  count "$logs/unit.log"
  cargo_test --doc -- "${names[@]}" 2>&1 | tee "$logs/doc.log"
  ((status |= PIPESTATUS[0]))
  count "$logs/doc.log"
  # hashes must not depend on overflow checks and optimisation; the crate is small and needs nothing that is heavy
  cargo test --locked --package turbine-keygroups --test digest --test placement --test canonical -- "${names[@]}" 2>&1 | tee "$logs/debug.log"
  ((status |= PIPESTATUS[0]))
  count "$logs/debug.log"
  return "$status"
}

# what `unit_tests` has counted as skipped, since it needs a broker, an object store or a volume that is soon full
component_tests() {
  local status=0 small before=$passed
  "$BED/s3.sh" up || return 1
  eval "$("$BED/env.sh")"
  cargo_test --test real --test real_broker --test dlq -- --ignored "${names[@]}" 2>&1 | tee "$logs/real.log"
  status=${PIPESTATUS[0]}
  "$BED/s3.sh" down --wipe
  count "$logs/real.log"
  if is_root; then
    small=$(mktemp -d) && mount -t tmpfs -o size=32m small "$small" || return 1
    TURBINE_SMALL_VOLUME=$small cargo_test --test store --test full_volume -- --ignored "${names[@]}" 2>&1 | tee "$logs/full.log"
    ((status |= PIPESTATUS[0]))
    count "$logs/full.log"
    umount "$small" && rmdir "$small"
  fi
  # a failed one counts as such, and stays among the skipped
  skipped=$((skipped - passed + before))
  return "$status"
}

end_to_end_tests() {
  local own status=0
  mapfile -t own < <(targets tests/tests/e2e.rs)
  if [ ${#own[@]} -eq 0 ]; then note "no end-to-end tests in tests/tests"; return 1; fi
  forget_skips
  run_e2e() {
    local run=0
    timeout --foreground 60m cargo test "${CARGO_SELECTION[@]}" --no-fail-fast "${own[@]}" -- "$@" 2>&1 | tee "$logs/e2e.log"
    run=${PIPESTATUS[0]}
    [ "$run" != 124 ] || note "end-to-end tests: broken off after 60 minutes"
    count "$logs/e2e.log"
    ((status |= run))
  }
  "$BED/s3.sh" up || return 1
  eval "$("$BED/env.sh")"
  if [ ${#names[@]} -gt 0 ]; then run_e2e --test-threads=1 "${names[@]}"; else
    # tests wait for pods most of the time; those of the second call stop the broker, commit ten times a second and task, or install
    # releases that watch all namespaces
    local alone=(crash_points:: crashes:: end_to_end:: exactly_once:: helm:: topics::an_unreachable) skip=()
    for module in "${alone[@]}"; do skip+=(--skip "$module"); done
    run_e2e --test-threads=3 "${skip[@]}"
    run_e2e --test-threads=1 "${alone[@]}"
  fi
  "$BED/s3.sh" down --wipe
  count_skips
  return "$status"
}

# One test at a time: what happens to the brokers happens to all.
fault_tests() {
  local status=0 own=("${names[@]}")
  export TURBINE_BED_KAFKA=faults TURBINE_FAULTS=$kills
  # a transaction that is over is noticed within a second, and an idle transactional id is forgotten within a minute
  export TURBINE_BED_KAFKA_SETTINGS='transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
transactional.id.expiration.ms=40000
transaction.remove.expired.transaction.cleanup.interval.ms=2000'
  [ "$kills" != 0 ] || own+=(--skip long::)
  forget_skips
  "$BED/kafka.sh" down --wipe && "$BED/kafka.sh" up --brokers 3 || return 1
  eval "$("$BED/env.sh")"
  cargo test "${CARGO_SELECTION[@]}" --no-fail-fast --test broker_faults -- --test-threads=1 "${own[@]}" 2>&1 | tee "$logs/faults.log"
  status=${PIPESTATUS[0]}
  count "$logs/faults.log"
  count_skips
  "$BED/kafka.sh" down --wipe
  return "$status"
}

# A broker that runs is used as it is and stays.
crash_tests() {
  local status=0 was_up
  [ -n "${TURBINE_CRASHES:-}" ] || die "test: --crashes wants a number of kills"
  forget_skips
  "$BED/kafka.sh" running >/dev/null 2>&1 && was_up=yes || was_up=no
  "$BED/kafka.sh" up && "$BED/s3.sh" up || return 1
  eval "$("$BED/env.sh")"
  cargo test "${CARGO_SELECTION[@]}" --no-fail-fast --test e2e -- --test-threads=1 --nocapture crash_points:: crashes:: 2>&1 | tee "$logs/crashes.log"
  status=${PIPESTATUS[0]}
  count "$logs/crashes.log"
  count_skips
  "$BED/s3.sh" down --wipe
  [ "$was_up" = yes ] || "$BED/kafka.sh" down --wipe
  return "$status"
}

# the demo fails unless every window of its 200,000 records is right after a worker was killed: one test
demo() {
  if "$BED/demo.sh"; then passed=$((passed + 1)); else failed=$((failed + 1)); return 1; fi
}

bed_up() {
  local mode=() reason
  if reason=$(why_no_nodes); then
    say "this machine cannot run pods: $reason; tests that need them are skipped"
    mode=(--api-only)
  fi
  "$BED/bed.sh" up "${mode[@]}"
}

finish() {
  say
  for name in "${broken[@]}"; do say "failed stage: $name"; done
  say "total time $(seconds_since "$began") s"
  say "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ] && [ ${#broken[@]} = 0 ]
  exit
}

groups=(build)
if [ $lint = yes ]; then groups+=(lint); fi
if [ $gates = yes ]; then groups+=(gates); fi
if [ $e2e = yes ] && ! why_no_nodes >/dev/null; then groups+=(api bed); fi
"$BED/packages.sh" "${groups[@]}" || exit 1

# Kubernetes and Kafka are fetched and compiled beside the Rust code
if [ $e2e = yes ]; then
  if why_no_nodes >/dev/null; then preparing=(kafka api s3); else preparing=(kafka api nodes s3); fi
  "$BED/build.sh" "${preparing[@]}" > >(sed -u 's/^/[bed] /') 2>&1 &
  preparation=$!
fi

stage RocksDB build_rocksdb || finish
if [ $lint = yes ]; then
  rm -f "$logs/advisories.skipped"
  stage lint "$BED/lint.sh"
  if [ -e "$logs/advisories.skipped" ]; then skipped=$((skipped + 1)) && say "skipped: advisories of dependencies (their database cannot be fetched)"; fi
fi
stage build compile || finish
if [ $unit = yes ]; then stage "unit tests" unit_tests; fi
if [ $gates = yes ]; then stage gates "$BED/gates.sh"; fi
if [ $e2e = yes ]; then
  stage "bed build" wait "$preparation" || finish
  was_up=$(cluster_mode)
  stage images "$BED/images.sh" || finish
  # the operator that a demo has installed would act on the apps of the tests
  if [ $anew = yes ] && { [ "$was_up" != none ] || [ -e "$STATE/kept" ]; }; then stage "bed down" "$BED/bed.sh" down; fi
  if [ $demo = yes ] && stage "bed up" bed_up; then
    eval "$("$BED/env.sh")"
    if [ "$TURBINE_BED_MODE" = full ]; then stage demo demo; else skipped=$((skipped + 1)) && say "skipped: the demo (no nodes)"; fi
    stage "bed down" "$BED/bed.sh" down
  fi
  if stage "bed up" bed_up; then
    eval "$("$BED/env.sh")"
    if [ $unit = yes ]; then stage "component tests" component_tests; fi
    stage "end-to-end tests" end_to_end_tests
  fi
  if { [ "$was_up" = none ] || [ $anew = yes ]; } && [ $keep = no ]; then stage "bed down" "$BED/bed.sh" down; fi
fi
if [ $crashes = yes ]; then
  stage "bed build" "$BED/build.sh" kafka s3 && stage "killed workers" crash_tests
fi
if [ $faults != no ]; then
  if [ $e2e = yes ] || stage "bed build" "$BED/build.sh" kafka; then stage "three brokers" fault_tests; fi
fi
finish
