#!/bin/bash
# build.sh OUT_DIR: compiles a server that speaks S3 (a module of its own, with Versity's gateway and its folder backend)
set -euo pipefail
out=$1
cd "$(dirname "$0")"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/s3-mini" .
