#!/bin/bash
# kill-container.sh POD [-n NAMESPACE] [-c CONTAINER] [-s SIGNAL]: sends a signal (default SIGKILL) to the main process of a
# container, from outside: a container's process 1 ignores SIGKILL that comes from inside. Default: the first container.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
pod=${1:?POD}
shift
namespace=default container='' signal=SIGKILL
while getopts n:c:s: option; do
  case $option in
    n) namespace=$OPTARG ;;
    c) container=$OPTARG ;;
    s) signal=$OPTARG ;;
    *) exit 2 ;;
  esac
done
kubectl() { "$BIN/kubectl" --kubeconfig "$(kubeconfig)" -n "$namespace" "$@"; }
node=$(kubectl get pod "$pod" -o jsonpath='{.spec.nodeName}')
[ -n "$container" ] || container=$(kubectl get pod "$pod" -o jsonpath='{.spec.containers[0].name}')
path="?(@.name==\"$container\")"
id=$(kubectl get pod "$pod" -o jsonpath="{.status.containerStatuses[$path].containerID}{.status.initContainerStatuses[$path].containerID}")
[ -n "$id" ] || die "container $container of pod $pod has not started"
ctr -a "$STATE/run/$node/containerd.sock" -n k8s.io tasks kill -s "$signal" "${id#containerd://}"
