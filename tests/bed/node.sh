#!/bin/bash
# node.sh N: process 1 of node N's sandbox (own network, mount and process namespaces, made by up.sh); it starts every
# component of the node and starts it again when it ends. Node 1 also runs the control plane.
. "$(dirname "$0")/lib.sh"
. "$BED/control-plane.sh"
number=$1
name=node$number
ip=10.98.0.$((number + 1))
data=$STATE/var/$name
work=$STATE/run/$name # sockets, rendered configuration, address leases of pods: stale after a kill, so made anew
LOGS=$STATE/log/$name

mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
# folders that components have hard-coded: nothing of them stays on the host
for dir in /var/lib/kubelet /var/lib/cni /var/log/containers; do
  mkdir -p "$dir"
  mount -t tmpfs tmpfs "$dir"
done
mount --bind "$STATE/run/resolv.conf" /etc/resolv.conf

rm -rf "$work"
mkdir -p "$work/cni" "$LOGS" "$data"
keep_last_logs
render() { sed "s|@STATE@|$STATE|g;s|@DATA@|$data|g;s|@WORK@|$work|g;s|@NAME@|$name|g;s|@PODS@|10.244.$number.0/24|g" "$BED/etc/$1" >"$2"; }
for file in containerd.toml kubelet.yaml kube-proxy.yaml Corefile; do render "$file" "$work/$file"; done
render cni.conflist "$work/cni/10-pods.conflist"

ip link set lo up
ip addr replace "$ip/24" dev eth0
ip link set eth0 up
ip route replace default via "$HOST_IP"
for other in $(seq "$MAX_NODES"); do
  [ "$other" = "$number" ] || ip route replace "10.244.$other.0/24" via "10.98.0.$((other + 1))"
done
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null
nft flush ruleset
ip link del cni0 2>/dev/null

run containerd containerd -c "$work/containerd.toml"
if [ "$number" = 1 ]; then start_api "$ip" "$STATE/var/etcd"; fi

ctr() { command ctr -a "$work/containerd.sock" -n k8s.io "$@"; }
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for image in "$STATE"/images/*.tar; do
  mark=$data/imported-$(basename "$image")-$(stat -c %Y-%s "$image")
  if [ ! -e "$mark" ]; then ctr images import "$image" >>"$LOGS/images.log" 2>&1 && touch "$mark"; fi
done
until api_ready "$API_IP"; do sleep 0.1; done

if [ "$number" = 1 ]; then
  run kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$STATE/pki/controller-manager.kubeconfig" \
    --service-account-private-key-file="$STATE/pki/service-accounts.key" --root-ca-file="$STATE/pki/ca.crt" \
    --use-service-account-credentials --leader-elect=false --bind-address=127.0.0.1 \
    --kube-api-qps=300 --kube-api-burst=600 --pvclaimbinder-sync-period=2s \
    --node-monitor-period=2s --node-monitor-grace-period=16s
  run kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$STATE/pki/scheduler.kubeconfig" --leader-elect=false \
    --bind-address=127.0.0.1 --kube-api-qps=300 --kube-api-burst=600
  run coredns "$BIN/coredns" -conf "$work/Corefile"
fi
run kubelet "$BIN/kubelet" --config="$work/kubelet.yaml" --kubeconfig="$STATE/pki/$name.kubeconfig" \
  --root-dir="$data/kubelet" --hostname-override="$name" --node-ip="$ip"
run kube-proxy "$BIN/kube-proxy" --config="$work/kube-proxy.yaml"
run provisioner "$BED/provisioner.sh" "$name"

# as process 1, bash also reaps orphans
while :; do
  wait
  sleep 1
done
