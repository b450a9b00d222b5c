#!/bin/bash
# status.sh: what of the bed runs
set -uo pipefail
. "$(dirname "$0")/lib.sh"
mode=$(cluster_mode)
case $mode in
  none) say "Kubernetes: down" ;;
  api) say "Kubernetes: API server alone (no pods)" ;;
  full) say "Kubernetes: up" ;;
esac
if [ "$mode" != none ]; then
  "$BIN/kubectl" --kubeconfig "$(kubeconfig)" get nodes 2>&1 | sed 's/^/  /'
fi
"$BED/kafka.sh" status
say "state and logs: $STATE"
