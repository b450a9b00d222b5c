#!/bin/bash
# build.sh OUT_DIR: compiles Helm 3
set -euo pipefail
CGO_ENABLED=0 GOBIN=$1 go install -trimpath -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=v3.19.5" helm.sh/helm/v3/cmd/helm@v3.19.5
