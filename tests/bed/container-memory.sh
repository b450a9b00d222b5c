#!/bin/bash
# container-memory.sh POD [-n NAMESPACE]: limit and highest use of the memory of a pod's first container in bytes, page cache
# included, and how often the kernel has killed in it for want of memory: LIMIT PEAK KILLS
set -euo pipefail
. "$(dirname "$0")/lib.sh"
pod=${1:?POD}
shift
namespace=default
while getopts n: option; do
  case $option in
    n) namespace=$OPTARG ;;
    *) exit 2 ;;
  esac
done
kubectl() { "$BIN/kubectl" --kubeconfig "$(kubeconfig)" -n "$namespace" "$@"; }
id=$(kubectl get pod "$pod" -o jsonpath='{.status.containerStatuses[0].containerID}')
[ -n "$id" ] || die "the container of pod $pod has not started"
id=${id#containerd://}
# processes of a node have numbers of their own, so the cgroup is found by the container's name
if [ -d /sys/fs/cgroup/memory ]; then root=/sys/fs/cgroup/memory; else root=/sys/fs/cgroup; fi
cgroup=$(find "$root/k8s" -type d -name "*$id*" -print -quit)
[ -n "$cgroup" ] || die "the container of pod $pod does not run"
if [ "$root" = /sys/fs/cgroup ]; then
  echo "$(cat "$cgroup/memory.max") $(cat "$cgroup/memory.peak") $(awk '$1 == "oom_kill" {print $2}' "$cgroup/memory.events")"
else
  echo "$(cat "$cgroup/memory.limit_in_bytes") $(cat "$cgroup/memory.max_usage_in_bytes") $(awk '$1 == "oom_kill" {print $2}' "$cgroup/memory.oom_control")"
fi
