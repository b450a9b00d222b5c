#!/bin/bash
# s3.sh VERB: a server that speaks S3, with the bucket `state`
#   up               start; safe to start again
#   down [--wipe]    stop; --wipe also deletes its objects
#   status           whether it runs and where
#   kill|pause|resume   SIGKILL; freeze without closing connections, and let go on
# Data, log and the address are in the state folder (s3/). The secret of every user is `turbine-secret`:
#   turbine                              may do everything
#   no-list no-get no-put no-delete      everything but s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dir=$STATE/s3
port=9300

server_pid() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) && grep -qs s3-mini "/proc/$pid/cmdline" && echo "$pid"
}
# by its number alone: on a busy machine the name comes a moment later
answers() { open_port 127.0.0.1 $port || ! kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

up() {
  [ -x "$(go_dir s3)/s3-mini" ] || die "the server is not there yet: tests/bed/build.sh s3"
  mkdir -p "$dir"
  if [ -z "$(server_pid)" ]; then
    setsid "$(go_dir s3)/s3-mini" "$dir" "0.0.0.0:$port" >"$dir/log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
  fi
  if ! wait_until 60 "S3 listening" answers || [ -z "$(server_pid)" ]; then
    tail -n 20 "$dir/log" >&2
    die "S3 did not start; its log is $dir/log"
  fi
  printf 'http://%s:%s' "$(choose_address)" $port >"$dir/endpoint"
  say "  S3 up at $(cat "$dir/endpoint")"
}

down() {
  local pid
  if pid=$(server_pid); then
    kill -CONT "$pid"
    kill -TERM "$pid"
    wait_until 10 "end of S3" sh -c "! kill -0 $pid 2>/dev/null" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$dir/endpoint"
  [ "${1:-}" != --wipe ] || rm -rf "$dir"
}

status() { if [ -n "$(server_pid)" ]; then say "S3: up at $(cat "$dir/endpoint")"; else say "S3: down"; fi; }

signal() {
  local pid
  pid=$(server_pid) || die "S3 does not run"
  kill "-$1" "$pid"
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
  up | down | status) "$verb" "$@" ;;
  kill) signal KILL ;;
  pause) signal STOP ;;
  resume) signal CONT ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; [ "$verb" = help ] || exit 2 ;;
esac
