#!/bin/bash
# api.sh: etcd and the API server alone, as ordinary processes on 127.0.0.1, for tests that run no pods and need no root
. "$(dirname "$0")/lib.sh"
. "$BED/control-plane.sh"
LOGS=$STATE/log/api
mkdir -p "$LOGS"
keep_last_logs
# in a session of its own: ending this process group ends both
trap 'trap - TERM; kill -TERM 0' TERM
start_api 127.0.0.1 "$STATE/var/etcd"
wait
