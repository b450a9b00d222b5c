#!/bin/bash
# down.sh: stops Kubernetes and removes its networks, cgroups and data; keys, images and logs stay.
# --keep: etcd, containers and volumes stay as well, for the next start.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
. "$BED/cgroups.sh"

if grep -qs kwok "/proc/$(cat "$STATE/run/kwok.pid" 2>/dev/null)/cmdline"; then kill "$(cat "$STATE/run/kwok.pid")"; fi
for i in $(seq "$MAX_NODES"); do
  node_alive "$i" || continue
  pid=$(cat "$STATE/run/node$i.pid")
  kill -KILL "$pid" # its child, process 1 of the namespace, dies with it, and everything in there with that
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
done
if api_only_alive; then
  pid=$(cat "$STATE/run/api.pid")
  kill -TERM -- "-$pid" 2>/dev/null
  # shellcheck disable=SC2317  # called through wait_until
  group_ended() { ! kill -0 -- "-$pid" 2>/dev/null; }
  wait_until 15 "end of the API server" group_ended || kill -KILL -- "-$pid" 2>/dev/null
fi

if is_root; then
  for namespace in /run/netns/k8s-*; do
    [ -e "$namespace" ] || continue
    name=$(basename "$namespace")
    wait_until 10 "end of all processes of $name" sh -c "! ip netns pids $name 2>/dev/null | grep -q ."
    ip link del "k8s-n${name#k8s-}" 2>/dev/null
    ip netns del "$name"
  done
  ip link del k8s0 2>/dev/null # its routes go with it
  remove_cgroups
  if [ -f "$STATE/run/sysctl.saved" ]; then
    { read -r overcommit && read -r panic && read -r oops; } <"$STATE/run/sysctl.saved"
    sysctl -qw vm.overcommit_memory="$overcommit" kernel.panic="$panic" kernel.panic_on_oops="$oops"
  fi
  rmdir /var/log/containers /var/lib/cni /var/lib/kubelet 2>/dev/null # mount points, always empty on the host
fi
rm -rf "${STATE:?}/run"
[ "${1:-}" = --keep ] || rm -rf "${STATE:?}/var"
exit 0
