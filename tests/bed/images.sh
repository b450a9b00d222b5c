#!/bin/bash
# images.sh [--worker PROGRAM] [--operator PROGRAM]: makes the images of worker and operator from the release binaries and
# imports them into the nodes that run, and into those that start later. The tag is a hash of the content: a new build is a
# new image. Prints the references, also kept in the state folder.
# images.sh import FILE.tar: imports any other image (docker-archive) the same way.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
images=$STATE/images
mkdir -p "$images"

# import FILE REFERENCE
import() {
  local i socket
  for i in $(seq "$MAX_NODES"); do
    node_alive "$i" || continue
    socket=$STATE/run/node$i/containerd.sock
    [ -z "$(ctr -a "$socket" -n k8s.io images ls -q "name==$2")" ] || continue
    ctr -a "$socket" -n k8s.io images import "$1" >/dev/null
  done
}

# build NAME PROGRAM
build() {
  local name=$1 program=$2 root reference
  [ -x "$program" ] || die "no $program; build it first: cargo build --release --workspace --bins --examples"
  root=$(mktemp -d)
  "$BED/images/root.sh" "$program" "$root"
  reference=$("$BED/images/archive.sh" "turbine.test/$name:@" "$root" "$images/$name.tar" "[\"/usr/local/bin/$(basename "$program")\"]" 65532:65532)
  rm -rf "$root"
  import "$images/$name.tar" "$reference"
  echo "$reference" >"$images/$name.ref"
  say "  image $reference ($(du -h "$images/$name.tar" | cut -f1))"
}

if [ "${1:-}" = import ]; then
  [ -f "${2:-}" ] || die "images.sh import FILE.tar"
  cp "$2" "$images/"
  import "$2" "$(tar -xOf "$2" ./manifest.json manifest.json 2>/dev/null | sed 's/.*"RepoTags":\["\([^"]*\)".*/\1/')"
  exit 0
fi

worker=$CARGO_TARGET_DIR/release/turbine-worker
operator=$CARGO_TARGET_DIR/release/turbine-operator
while [ $# -gt 0 ]; do
  case $1 in
    --worker) worker=$2 ;;
    --operator) operator=$2 ;;
    *) die "unknown argument $1" ;;
  esac
  shift 2
done
build worker "$worker"
build operator "$operator"
