#!/bin/bash
# kwok.sh up [NODES [VOLUMES]] | down: nodes that do not exist (default 10), played by kwok beside the real ones. Pods on them
# run and become ready at once, with addresses that answer nothing. They are tainted `kwok.x-k8s.io/node=fake:NoSchedule` and
# labelled `type=kwok`: only pods that tolerate and select them go there. Their claims use the storage class `fake`, of which
# there are VOLUMES volumes (default 0), each good for one claim of up to 1Ti.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
kubectl() { "$BIN/kubectl" --kubeconfig "$(kubeconfig)" "$@"; }
kwok_pid() {
  local pid
  pid=$(cat "$STATE/run/kwok.pid" 2>/dev/null) && grep -qs kwok "/proc/$pid/cmdline" && echo "$pid"
}

up() {
  local count=${1:-10} volumes=${2:-0} i
  for i in $(seq "$count"); do
    cat <<N
apiVersion: v1
kind: Node
metadata:
  name: kwok-$i
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {type: kwok, kubernetes.io/hostname: kwok-$i, kubernetes.io/os: linux}
spec:
  taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]
status:
  allocatable: {cpu: "1000", memory: 1Ti, pods: "10000"}
  capacity: {cpu: "1000", memory: 1Ti, pods: "10000"}
---
N
  done | kubectl apply -f - >/dev/null
  {
    cat <<C
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fake}
provisioner: kubernetes.io/no-provisioner
C
    for i in $(seq "$volumes"); do
      cat <<V
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: fake-$i, labels: {type: kwok}}
spec:
  storageClassName: fake
  capacity: {storage: 1Ti}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /nonexistent}
V
    done
  } | kubectl apply -f - >/dev/null
  if [ -z "$(kwok_pid)" ]; then
    mkdir -p "$STATE/log"
    # leases are renewed each quarter of their time; by status alone a node is seen too rarely and its pods are taken for lost
    setsid "$BIN/kwok" --kubeconfig "$(kubeconfig)" --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake \
      --cidr=10.245.0.0/16 --node-ip=10.98.0.254 --node-lease-duration-seconds=16 >"$STATE/log/kwok.log" 2>&1 </dev/null &
    echo $! >"$STATE/run/kwok.pid"
  fi
  kubectl wait --for=condition=Ready node -l type=kwok --timeout=60s >/dev/null
  say "  $count fake nodes ready, $volumes volumes"
}

down() {
  local pid
  kubectl delete node,pv -l type=kwok --ignore-not-found --wait=false >/dev/null
  kubectl delete storageclass fake --ignore-not-found >/dev/null
  if pid=$(kwok_pid); then kill "$pid"; fi
  rm -f "$STATE/run/kwok.pid"
}

case ${1:-} in
  up | down) "$@" ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
