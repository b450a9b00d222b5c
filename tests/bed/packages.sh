#!/bin/bash
# packages.sh build|api|bed|lint|gates...: installs the system packages that are missing (root, Debian family), or says which ones are
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# librdkafka is compiled from source with TLS; RocksDB's bindings are made by libclang
# shellcheck disable=SC2034  # reached by name
build=(build-essential ca-certificates cmake jq pkg-config clang libclang-dev libssl-dev libcurl4-openssl-dev zlib1g-dev)
# shellcheck disable=SC2034
api=(openssl curl ca-certificates)
# shellcheck disable=SC2034
bed=(containerd runc containernetworking-plugins conntrack iptables nftables ipset iproute2 busybox-static gcc libc6-dev e2fsprogs procps)
# shellcheck disable=SC2034
lint=(shellcheck)
# shellcheck disable=SC2034
gates=(valgrind)

missing=()
for group in "$@"; do
  declare -n list=$group
  for package in "${list[@]}"; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || die "missing: ${missing[*]} (names as in Debian); this script can install them on the Debian family only"
is_root || die "missing: ${missing[*]}; run as root, or: sudo apt-get install -y --no-install-recommends ${missing[*]}"
say "system packages: installing ${missing[*]} (about a minute)"
start=$(now_ms)
export DEBIAN_FRONTEND=noninteractive
log=$TURBINE_CACHE/logs/apt.log
mkdir -p "$(dirname "$log")"
install() { apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 </dev/null; }
# the package lists may be absent or old on a fresh machine
install || { apt-get update >"$log.update" 2>&1 </dev/null && install; } || { tail -n 20 "$log" >&2; die "apt-get failed; the whole log is $log"; }
# packaged services are not used: the nodes run their own containerd
if command -v systemctl >/dev/null; then systemctl disable --now containerd >/dev/null 2>&1 || true; fi
say "system packages: done in $(seconds_since "$start") s"
