#!/bin/bash
# up.sh [--api-only]: starts Kubernetes; safe to start again. NODES=1..3 nodes (default 1), each in namespaces of its own.
# --api-only: API server and etcd alone on 127.0.0.1, no pods, no root needed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$BED/cgroups.sh"
. "$BED/control-plane.sh"
start=$(now_ms)
nodes=${NODES:-1}
[[ $nodes =~ ^[1-$MAX_NODES]$ ]] || die "NODES=$nodes: 1 to $MAX_NODES"
mkdir -p "$STATE"/{run,var,log}
kubectl() { "$BIN/kubectl" --kubeconfig "$(kubeconfig)" "$@"; }
elapsed() { say "  $* after $(seconds_since "$start") s"; }

failed() {
  tail -n 3 "$STATE"/log/*.log "$STATE"/log/*/*.log >&2 2>/dev/null || true
  die "Kubernetes did not start; logs are in $STATE/log"
}

"$BED/pki.sh"

if [ "${1:-}" = --api-only ]; then
  [ "$(cluster_mode)" != full ] || { say "  Kubernetes already up, with nodes"; exit 0; }
  if ! api_only_alive; then
    mkdir -p "$STATE/log/api"
    setsid "$BED/api.sh" >>"$STATE/log/api.log" 2>&1 </dev/null &
    echo $! >"$STATE/run/api.pid"
  fi
  wait_until 60 "API server ready" api_ready 127.0.0.1 || failed
  wait_until 60 "default namespace" kubectl get namespace default >/dev/null 2>&1 || failed
  elapsed "API server ready (no nodes)"
  exit 0
fi

! api_only_alive || die "the API server runs alone; stop it first: ./run bed down"
if reason=$(why_no_nodes); then die "this machine cannot run a node: $reason"; fi

echo "nameserver $API_IP" >"$STATE/run/resolv.conf"
# The host reaches pods and services through the nodes. What is not up is unreachable instead of leaving by the
# default route, also after down.sh: a test aimed at a stopped cluster must not talk to a stranger.
for network in 10.96.0.0/12 10.244.0.0/16; do ip route replace unreachable "$network" metric 9999; done
ip link show k8s0 >/dev/null 2>&1 || ip link add k8s0 type bridge
ip addr replace "$HOST_IP/24" dev k8s0
ip link set k8s0 up
ip addr replace "$KAFKA_IP/32" dev lo
# the kubelet sets these for the whole host
[ -f "$STATE/run/sysctl.saved" ] || sysctl -n vm.overcommit_memory kernel.panic kernel.panic_on_oops >"$STATE/run/sysctl.saved"
for group in k8s k8s/system; do make_cgroup "$group"; done

for i in $(seq "$nodes"); do
  if node_alive "$i"; then
    say "  node$i already up (pid $(cat "$STATE/run/node$i.pid"))"
    continue
  fi
  [ -e "/run/netns/k8s-$i" ] || ip netns add "k8s-$i"
  ip link show "k8s-n$i" >/dev/null 2>&1 || ip link add "k8s-n$i" type veth peer name eth0 netns "k8s-$i"
  ip link set "k8s-n$i" master k8s0 up
  ip route replace "10.244.$i.0/24" via "10.98.0.$((i + 1))"
  make_cgroup "k8s/node$i"
  # node.sh is process 1 of a process namespace: killing it ends every component, shim and container of the node
  (
    enter_cgroup k8s/system
    exec setsid nsenter --net="/run/netns/k8s-$i" unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$BED/node.sh" "$i"
  ) >"$STATE/log/node$i.log" 2>&1 </dev/null &
  echo $! >"$STATE/run/node$i.pid"
done
ip route replace 10.96.0.0/16 via "$API_IP"

# the subshells above need a moment until they are the sandbox
wait_until 5 "sandbox of node1" node_alive 1 || failed
wait_until 90 "API server ready" api_ready "$API_IP" || failed
elapsed "API server ready"
# a stored Ready may be one of an earlier run, so the kubelet is asked as well
node_ready() {
  kubectl get --raw "/api/v1/nodes/node$1/proxy/healthz" >/dev/null 2>&1 && kubectl get node "node$1" 2>/dev/null | grep -q ' Ready'
}
for i in $(seq "$nodes"); do
  wait_until 90 "node$i Ready" node_ready "$i" || failed
  elapsed "node$i ready"
done
kubectl apply -f "$BED/etc/addons.yaml" >/dev/null
default_account() { kubectl get serviceaccount default >/dev/null 2>&1; }
wait_until 30 "default service account" default_account || failed
