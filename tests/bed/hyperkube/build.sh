#!/bin/bash
# build.sh OUT_DIR: compiles every Kubernetes component, kubectl and etcd into one binary, with a link per name
set -euo pipefail
out=$1
cd "$(dirname "$0")"
version=1.34.4
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=34"
  flags+=" -X $package.gitCommit=unknown -X $package.gitTreeState=clean -X $package.buildDate=2026-01-01T00:00:00Z"
done
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$flags" -o "$out/hyperkube" .
for component in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
  ln -sf hyperkube "$out/$component"
done
