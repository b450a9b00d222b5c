#!/bin/bash
# build.sh OUT_DIR: compiles the cluster's DNS server (a module of its own: in the one of Kubernetes it would raise versions)
set -euo pipefail
out=$1
cd "$(dirname "$0")"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/coredns" .
