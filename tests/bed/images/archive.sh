#!/bin/bash
# archive.sh NAME:TAG ROOT_DIR OUT.tar ENTRYPOINT_JSON [USER]: packs a folder as an image (docker-archive), deterministic,
# with tar and sha256sum alone. With NAME:@ the tag is a hash of the content; the reference is printed.
set -euo pipefail
reference=$1 root=$2 out=$3 entrypoint=$4 user=${5:-}
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(uname -m) ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$work/layer.tar" .
layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Entrypoint":%s,"User":"%s","Env":["PATH=/usr/local/bin:/usr/bin:/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z"}]}' \
  "$architecture" "$entrypoint" "$user" "$layer" >"$work/config.json"
config=$(sha256sum "$work/config.json" | cut -d' ' -f1)
mv "$work/config.json" "$work/$config.json"
case $reference in *:@) reference=${reference%@}${config:0:12} ;; esac
printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$config" "$reference" >"$work/manifest.json"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf "$out.new" .
mv "$out.new" "$out"
echo "$reference"
