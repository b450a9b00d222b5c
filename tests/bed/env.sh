#!/bin/bash
# env.sh: prints export lines of what a test or a person needs to use the bed: eval "$(./run bed env)"
set -euo pipefail
. "$(dirname "$0")/lib.sh"
kafka=$KAFKA_STATE
cat <<E
export KUBECONFIG=$(kubeconfig)
export TURBINE_BED=$BED
export TURBINE_BED_STATE=$STATE
export TURBINE_BED_MODE=$(cluster_mode)
export TURBINE_BIN=$CARGO_TARGET_DIR/release
export TURBINE_KAFKA_LIBS=$(kafka_libs)
export TURBINE_KAFKA_BOOTSTRAP=$(cat "$kafka/bootstrap" 2>/dev/null || true)
export TURBINE_KAFKA_SASL_BOOTSTRAP=$(cat "$kafka/bootstrap-sasl" 2>/dev/null || true)
export TURBINE_KAFKA_TLS_BOOTSTRAP=$(cat "$kafka/bootstrap-tls" 2>/dev/null || true)
export TURBINE_KAFKA_CLIENT=$kafka/client
export TURBINE_S3_ENDPOINT=$(cat "$STATE/s3/endpoint" 2>/dev/null || true)
export TURBINE_WORKER_IMAGE=$(cat "$STATE/images/worker.ref" 2>/dev/null || true)
export TURBINE_OPERATOR_IMAGE=$(cat "$STATE/images/operator.ref" 2>/dev/null || true)
export CARGO_TARGET_DIR=$CARGO_TARGET_DIR
export ROCKSDB_LIB_DIR=$(rocksdb_dir)/lib ROCKSDB_INCLUDE_DIR=$(rocksdb_dir)/include ROCKSDB_STATIC=1
export PATH=$CARGO_TARGET_DIR/release:$BIN:\$PATH
E
