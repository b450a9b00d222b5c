#!/bin/bash
# gates.sh [--update] [KERNEL...]: counts the instructions of each kernel of `turbine-bench kernels` under valgrind and compares
# them with tests/benchmarks/kernels.tsv. Fails if one takes more than MARGIN per cent more; --update writes what was counted.
# Counts do not depend on the load of the machine. They do on the compiler, on dependencies and on the processor's vector
# instructions, so figures are made with the toolchain of the repository on x86-64 with AVX2.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
MARGIN=3
figures=$ROOT/tests/benchmarks/kernels.tsv
update=no kernels=()
for argument in "$@"; do
  case $argument in
    --update) update=yes ;;
    -*) die "gates: unknown option $argument" ;;
    *) kernels+=("$argument") ;;
  esac
done
if [ "$(uname -m)" != x86_64 ] || ! grep -qw avx2 /proc/cpuinfo; then
  say "skipped: the figures of the gates are for x86-64 with AVX2"
  exit 0
fi
program=${TURBINE_BENCH:-$CARGO_TARGET_DIR/release/turbine-bench}
[ -x "$program" ] || die "$program is not built"
[ ${#kernels[@]} -gt 0 ] || mapfile -t kernels < <("$program" kernels --list)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# instructions KERNEL: how many its one run takes, all that it calls included
instructions() {
  local log=$folder/$1.log
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect='*counted_kernel*' \
    "$program" kernels --once "$1" >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
  awk '/ Collected : / {print $4}' "$log"
}

failed=0
for kernel in "${kernels[@]}"; do
  counted=$(instructions "$kernel") || die "valgrind failed on $kernel"
  [ "${counted:-0}" -gt 0 ] || die "nothing was counted of $kernel: valgrind did not see the function counted_kernel"
  printf '%s\t%s\n' "$kernel" "$counted" >>"$folder/counted"
  known=$(awk -F '\t' -v kernel="$kernel" '$1 == kernel {print $2}' "$figures" 2>/dev/null || true)
  if [ -z "$known" ]; then
    say "  $kernel: $counted instructions, no figure to compare with"
    [ $update = yes ] || failed=1
    continue
  fi
  change=$(awk -v a="$known" -v b="$counted" 'BEGIN {printf "%+.2f", (b / a - 1) * 100}')
  if awk -v change="$change" -v margin=$MARGIN 'BEGIN {exit !(change > margin)}'; then
    say "  $kernel: $counted instructions, $change % of $known: DEARER than $MARGIN % allow"
    [ $update = yes ] || failed=1
  else
    say "  $kernel: $counted instructions, $change % of $known"
  fi
done
if [ $update = yes ]; then
  # figures of kernels that were not asked for stay
  awk -F '\t' 'NR == FNR {new[$1] = $2; next} !($1 in new)' "$folder/counted" "$figures" 2>/dev/null >"$folder/kept" || true
  sort "$folder/kept" "$folder/counted" >"$figures"
  say "  written: ${figures#"$ROOT"/}"
fi
[ $failed = 0 ] || die "gates: make it cheaper, or, if the price is right, ./run bench gates --update and say why in the commit"
