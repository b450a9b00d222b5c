#!/bin/bash
# build.sh OUT_DIR: compiles RocksDB from the sources in the crate rust-librocksdb-sys into OUT_DIR/lib/librocksdb.a, with its headers
# The crate's own build compiles 348 files one by one, and nine tenths of that time are the same headers again and again:
# 50 CPU-minutes here. Up to 16 files of one folder as one unit take a quarter of it. The options are those of the crate's build,
# less debug information.
set -euo pipefail
out=$1
crate() {
  cargo metadata --locked --format-version 1 |
    jq -er --arg name "$1" '.packages[] | select(.name == $name) | .manifest_path | rtrimstr("/Cargo.toml")'
}
sources=$(crate rust-librocksdb-sys)
lz4=$(crate lz4-sys)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$sources"

options=(-I c-api-extensions -I rocksdb/include -I rocksdb -I . -I "$lz4/liblz4/lib"
  -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DLZ4=1 -DNO_PCLMUL -DOS_LINUX
  -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT
  -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT -DROCKSDB_PTHREAD_ADAPTIVE_MUTEX -DROCKSDB_BACKTRACE
  -include cstdint -w -O3 -std=c++20 -ffunction-sections -fdata-sections -fPIC -fno-omit-frame-pointer
  -fno-builtin-memcmp -fno-rtti)

# units follow the list's order and never cross a folder; the crate brings a build_version.cc of its own
{ grep -v -e '^$' -e '^util/build_version.cc$' rocksdb_lib_sources.txt | sed 's|^|rocksdb/|'; echo build_version.cc; } |
  awk -v size=16 -v work="$work" '{
    folder = $1; sub(/[^\/]*$/, "", folder)
    if (folder != last || count >= size) { unit++; count = 0; last = folder }
    count++
    printf "#include \"%s\"\n", $1 > sprintf("%s/unit%03d.cc", work, unit)
  }'

# a unit whose files clash with each other is compiled file by file
compile_unit() {
  local unit=$1 file
  echo "$(basename "$unit" .cc): $(head -n 1 "$unit" | cut -d'"' -f2) and $(($(wc -l <"$unit") - 1)) more"
  g++ "${options[@]}" -c "$unit" -o "${unit%.cc}.o" 2>"${unit%.cc}.err" && return
  echo "$(basename "$unit" .cc): one by one"
  cut -d'"' -f2 "$unit" | while IFS= read -r file; do
    g++ "${options[@]}" -c "$file" -o "${unit%.cc}-$(basename "$file" .cc).o"
  done
}
export -f compile_unit
export options_text="${options[*]@Q}"
# shellcheck disable=SC2016  # the inner shell expands them
printf '%s\0' "$work"/unit*.cc |
  xargs -0 -P "$(nproc)" -I{} bash -euo pipefail -c 'eval "options=($options_text)"; compile_unit {}'

mkdir -p "$out/lib"
ar crs "$out/lib/librocksdb.a" "$work"/*.o
cp -r rocksdb/include "$out/"
