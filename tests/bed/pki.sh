#!/bin/bash
# pki.sh: keys, certificates and kubeconfigs of the cluster, made once per state folder
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dir=$STATE/pki
[ ! -e "$dir/.complete" ] || exit 0
rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }
# sign NAME SUBJECT EXTENSIONS
sign() {
  key "$1"
  openssl req -new -key "$1.key" -subj "$2" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile <(printf '%b\n' "$3") -out "$1.crt" 2>/dev/null
}
# kubeconfig_for NAME SERVER FILE: keys are embedded, so that the file can be copied anywhere
kubeconfig_for() {
  cat >"$3" <<K
apiVersion: v1
kind: Config
clusters:
  - name: bed
    cluster: {server: "$2", certificate-authority-data: $(base64 -w0 ca.crt)}
users:
  - name: $1
    user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}
contexts:
  - name: bed
    context: {cluster: bed, user: $1}
current-context: bed
K
}
client() {
  sign "$1" "$2" "extendedKeyUsage=clientAuth"
  kubeconfig_for "$1" "https://$API_IP:6443" "$1.kubeconfig"
}

key ca
openssl req -x509 -new -key ca.key -days 3650 -subj /CN=k8s-ca -out ca.crt
sign apiserver /CN=kube-apiserver "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1,IP:$API_IP,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
client admin "/O=system:masters/CN=admin"
kubeconfig_for admin https://127.0.0.1:6443 admin-local.kubeconfig
client controller-manager "/CN=system:kube-controller-manager"
client scheduler "/CN=system:kube-scheduler"
for i in $(seq "$MAX_NODES"); do
  sign "node$i-server" "/CN=node$i" "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1,IP:10.98.0.$((i + 1)),DNS:node$i"
  client "node$i" "/O=system:nodes/CN=system:node:node$i"
done
openssl genrsa -out service-accounts.key 2048 2>/dev/null
openssl rsa -in service-accounts.key -pubout -out service-accounts.pub 2>/dev/null
chmod 600 ./*.key ./*.kubeconfig
touch .complete
