# shellcheck shell=bash
# How etcd and the API server are started, on a node and alone. Sourced, after lib.sh and a `run NAME COMMAND...`.

# start_api ADVERTISED_IP ETCD_DIR
start_api() {
  # the data is thrown away with the bed: no fsync, which is what makes etcd slow
  run etcd "$BIN/etcd" --data-dir "$2" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster default=http://127.0.0.1:2380 --unsafe-no-fsync --log-level warn
  run kube-apiserver "$BIN/kube-apiserver" --advertise-address="$1" --secure-port=6443 --etcd-servers=http://127.0.0.1:2379 \
    --service-cluster-ip-range=10.96.0.0/16 --client-ca-file="$STATE/pki/ca.crt" \
    --tls-cert-file="$STATE/pki/apiserver.crt" --tls-private-key-file="$STATE/pki/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$STATE/pki/service-accounts.pub" \
    --service-account-signing-key-file="$STATE/pki/service-accounts.key" --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged --kubelet-preferred-address-types=InternalIP --profiling=false \
    --kubelet-client-certificate="$STATE/pki/admin.crt" --kubelet-client-key="$STATE/pki/admin.key" \
    --kubelet-certificate-authority="$STATE/pki/ca.crt"
}

# run NAME COMMAND...: a component that is started again whenever it ends; its log is LOGS/NAME.log
run() {
  local name=$1
  shift
  (
    while :; do
      "$@" >>"$LOGS/$name.log" 2>&1
      echo "== $name ended ($?), starting again" >>"$LOGS/$name.log"
      sleep 0.5
    done
  ) &
}

# keep_last_logs: the logs of the run before stay beside the new ones
keep_last_logs() {
  local log
  for log in "$LOGS"/*.log; do [ ! -e "$log" ] || mv "$log" "$log.1"; done
}

api_ready() { curl -s --max-time 1 --cacert "$STATE/pki/ca.crt" "https://$1:6443/readyz" 2>/dev/null | grep -q ok; }
