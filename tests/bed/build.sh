#!/bin/bash
# build.sh [PART...]: builds or fetches, once, what the bed runs. Parts, default all but s3:
#   kafka   Kafka's jars, by Maven
#   api     etcd, API server, kubectl, Helm (Go)
#   nodes   CoreDNS, kwok (Go), base images, packages that run containers
#   s3      a server that speaks S3 (Go); only tests need it
set -euo pipefail
. "$(dirname "$0")/lib.sh"
logs=$TURBINE_CACHE/logs
mkdir -p "$logs" "$BIN" "$STATE/images"

# the two callers of a cold machine (cargo's stage and the bed's) must not build the same thing twice
exec 9>"$TURBINE_CACHE/bed/build.lock"
flock 9

# Go's caches of these builds are several GB and never used again: they live as long as the builds
go_cache=$TURBINE_CACHE/bed/go-cache
# -v names each package when it is compiled, which is what the log shows as progress
export GOCACHE=$go_cache/build GOMODCACHE=$go_cache/mod GOFLAGS="-modcacherw -v"

# build_go NAME SECONDS: nothing to do when the key is there; a broken-off build leaves no key behind
build_go() {
  local name=$1 dir
  dir=$(go_dir "$name")
  if [ ! -e "$dir/.complete" ]; then
    command -v go >/dev/null || die "Go is needed once, to build $name: https://go.dev/dl"
    rm -rf "$TURBINE_CACHE/bed/$name"-*
    mkdir -p "$dir"
    progress "$2" "go build of $name" "$logs/go-$name.log" nice -n 5 "$BED/$name/build.sh" "$dir"
    touch "$dir/.complete"
  fi
  for program in "$dir"/*; do ln -sf "$program" "$BIN/"; done
}

fetch_kafka() {
  local libs
  libs=$(kafka_libs)
  [ ! -e "$libs/.complete" ] || return 0
  command -v mvn >/dev/null || die "Maven (with Java 17) is needed once, to fetch Kafka's jars"
  rm -rf "$TURBINE_CACHE"/bed/kafka-*
  mkdir -p "$libs"
  progress 30 "Maven fetches Kafka" "$logs/maven.log" \
    mvn -q -B -f "$BED/kafka/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$libs"
  touch "$libs/.complete"
}

# the images that the nodes themselves need, and one with a shell for test pods
base_images() {
  local root
  root=$(mktemp -d)
  trap 'rm -rf "$root"' RETURN
  if [ ! -e "$STATE/images/pause.tar" ]; then
    mkdir "$root/pause"
    gcc -static -Os -s -o "$root/pause/pause" "$BED/images/pause.c"
    "$BED/images/archive.sh" k8s.test/pause:1 "$root/pause" "$STATE/images/pause.tar" '["/pause"]'
  fi
  if [ ! -e "$STATE/images/busybox.tar" ]; then
    mkdir -p "$root/busybox/bin" "$root/busybox/tmp"
    cp /bin/busybox "$root/busybox/bin/"
    for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$root/busybox/bin/$applet"; done
    chmod 1777 "$root/busybox/tmp"
    "$BED/images/archive.sh" k8s.test/busybox:1 "$root/busybox" "$STATE/images/busybox.tar" '[]'
  fi
}

[ $# -gt 0 ] || set -- kafka api nodes
for part in "$@"; do
  case $part in
    kafka) fetch_kafka ;;
    api)
      "$BED/packages.sh" api
      build_go hyperkube 420
      build_go helm 60
      ;;
    nodes)
      "$BED/packages.sh" bed
      build_go coredns 40
      build_go kwok 80
      base_images
      ;;
    s3) build_go s3 120 ;;
    *) die "build: unknown part $part" ;;
  esac
done
rm -rf "$go_cache"
