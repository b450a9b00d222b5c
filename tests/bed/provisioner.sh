#!/bin/bash
# provisioner.sh NODE: makes, grows and deletes the volumes of one node, driven by two watches.
#   standard  a folder of the node (a `local` volume honours fsGroup, a host path does not); grows on request
#   limited   a file system of exactly the asked size, for tests with a full disk; does not grow
. "$(dirname "$0")/lib.sh"
node=$1
root=$STATE/var/volumes/$node
mkdir -p "$root"
kubectl() { "$BIN/kubectl" --kubeconfig "$STATE/pki/admin.kubeconfig" "$@"; }

# bytes QUANTITY: the whole number of bytes of a Kubernetes quantity; fails for what is not one
bytes() {
  [[ $1 =~ ^([0-9]+)(k|M|G|T|Ki|Mi|Gi|Ti)?$ ]] || return 1
  local number=${BASH_REMATCH[1]}
  case ${BASH_REMATCH[2]} in
    '') echo "$number" ;;
    k) echo $((number * 1000)) ;; M) echo $((number * 1000 ** 2)) ;; G) echo $((number * 1000 ** 3)) ;; T) echo $((number * 1000 ** 4)) ;;
    Ki) echo $((number * 1024)) ;; Mi) echo $((number * 1024 ** 2)) ;; Gi) echo $((number * 1024 ** 3)) ;; Ti) echo $((number * 1024 ** 4)) ;;
  esac
}

mount_limited() { mountpoint -q "$root/$1" || mount -o loop "$root/$1.img" "$root/$1"; }

# make_folder CLASS UID SIZE
make_folder() {
  mkdir -p "$root/$2"
  if [ "$1" = limited ]; then
    local size
    size=$(bytes "$3") || { echo "volume $2: size $3 is not a whole number of bytes"; return 1; }
    # sparse: takes what is written; no blocks held back for root, so that a pod meets the limit where it is
    [ -e "$root/$2.img" ] || { truncate -s "$size" "$root/$2.img.new" && mkfs.ext4 -q -m 0 -O ^has_journal "$root/$2.img.new" && mv "$root/$2.img.new" "$root/$2.img"; } || return 1
    mount_limited "$2" || return 1
    rmdir "$root/$2/lost+found" 2>/dev/null
  fi
  chmod 0777 "$root/$2"
}

delete_folder() {
  umount "$root/$1" 2>/dev/null
  rm -rf "${root:?}/$1" "$root/$1.img"
}

create_volume() {
  local class=$1 namespace=$2 claim=$3 uid=$4 size=$5
  kubectl create -f - <<V
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pvc-$uid
  labels: {k8s.test/node: $node}
  annotations: {pv.kubernetes.io/provisioned-by: k8s.test/local}
spec:
  capacity: {storage: "$size"}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: $class
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: "$namespace", name: "$claim", uid: "$uid"}
  local: {path: $root/$uid}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [$node]}]
V
}

# the control plane's part of a resize: first the volume, then the claim's status
grow_volume() {
  local namespace=$1 claim=$2 volume=$3 size=$4
  kubectl patch pv "$volume" --type merge -p "{\"spec\":{\"capacity\":{\"storage\":\"$size\"}}}" &&
    kubectl patch pvc -n "$namespace" "$claim" --subresource=status --type merge \
      -p "{\"status\":{\"capacity\":{\"storage\":\"$size\"},\"conditions\":[],\"allocatedResourceStatuses\":null}}"
}

watch_claims() {
  kubectl get pvc -A --watch -o jsonpath='{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{.spec.storageClassName}|{.spec.resources.requests.storage}|{.metadata.annotations.volume\.kubernetes\.io/selected-node}|{.spec.volumeName}|{.status.capacity.storage}{"\n"}' |
    while IFS='|' read -r namespace claim uid class size selected volume capacity; do
      [ "$selected" = "$node" ] || continue
      # class-*: made by tests
      case $class in standard | limited | class-*) ;; *) continue ;; esac
      if [ -z "$volume" ]; then
        # a claim has several events before it is bound; the second one finds the volume there
        if make_folder "$class" "$uid" "$size"; then create_volume "$class" "$namespace" "$claim" "$uid" "$size"; fi
      elif [ "$class" = standard ] && [ -n "$capacity" ] && [ "$capacity" != "$size" ]; then
        grow_volume "$namespace" "$claim" "$volume" "$size"
      fi
    done
}

# nothing of Kubernetes deletes a Released volume of this kind, so this does
watch_volumes() {
  kubectl get pv --watch -l "k8s.test/node=$node" -o jsonpath='{.metadata.name}|{.status.phase}{"\n"}' |
    while IFS='|' read -r volume phase; do
      [ "$phase" = Released ] || continue
      delete_folder "${volume#pvc-}"
      kubectl delete pv "$volume" --wait=false
    done
}

# mounts end with the node's namespaces, their images do not
for image in "$root"/*.img; do
  [ ! -e "$image" ] || { uid=$(basename "$image" .img) && mkdir -p "$root/$uid" && mount_limited "$uid"; }
done

while :; do watch_volumes; sleep 1; done &
while :; do watch_claims; sleep 1; done
