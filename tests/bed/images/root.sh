#!/bin/bash
# root.sh PROGRAM DIR: lays out the root folder of an image: one program, the libraries that it loads and what they read.
# The Dockerfile calls this too, so that both ways give the same content.
set -euo pipefail
program=$1 dir=$2
install -D -m 0755 "$program" "$dir/usr/local/bin/$(basename "$program")"
# lines of ldd are `name => /path (address)`, and the loader alone without the arrow
if libraries=$(ldd "$program"); then
  if grep 'not found' <<<"$libraries" >&2; then exit 1; fi
  awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// {print $1}' <<<"$libraries" | while read -r library; do
    install -D -m 0755 "$library" "$dir$library"
  done
fi
# certificate authorities, where OpenSSL and rustls look
install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$dir/usr/lib/ssl"
ln -s /etc/ssl/certs/ca-certificates.crt "$dir/usr/lib/ssl/cert.pem"
ln -s /etc/ssl/certs "$dir/usr/lib/ssl/certs"
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' >"$dir/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' >"$dir/etc/group"
printf 'hosts: files dns\n' >"$dir/etc/nsswitch.conf"
mkdir -p "$dir/tmp"
chmod -R u=rwX,go=rX "$dir"
chmod 1777 "$dir/tmp"
