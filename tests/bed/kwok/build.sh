#!/bin/bash
# build.sh OUT_DIR: compiles kwok, which plays the kubelet of nodes that do not exist
set -euo pipefail
CGO_ENABLED=0 GOBIN=$1 go install -trimpath -ldflags "-s -w" sigs.k8s.io/kwok/cmd/kwok@v0.7.0
