#!/bin/bash
# kafka.sh VERB: Apache Kafka (KRaft), one broker or three
#   up [--brokers 1|3]      format on first use and start; safe to start again
#   down [--wipe]           stop all brokers; --wipe also deletes their data
#   kill|stop|start|restart N   one broker (1..3): SIGKILL, SIGTERM, start again, stop and start
#   pause|resume N          freeze a broker without closing its connections, and let it go on
#   set NAME=VALUE          a setting of all brokers, from their next start on
#   status                  what runs and where
#   running                 succeeds if a broker runs
#   tool NAME ARGS...       Kafka's own tools: topics groups configs acls offsets consume produce txn dump
# TURBINE_BED_KAFKA=NAME acts on a cluster of its own beside that of the bed: ports 400 higher, folder kafka-NAME. With
# TURBINE_BED_KAFKA_SETTINGS, lines of server.properties are added when it is formatted.
# Data, logs and the addresses are in the state folder (kafka/). Every broker listens three times:
#   bootstrap       PLAINTEXT  9092 9192 9292   may do everything
#   bootstrap-sasl  SASL_SSL   9094 9194 9294   SCRAM-SHA-512 or PLAIN; user `turbine` may do everything, user `limited` nothing
#   bootstrap-tls   SSL        9095 9195 9295   with a client certificate; client/{ca.crt,client.crt,client.key}
set -euo pipefail
. "$(dirname "$0")/lib.sh"
dir=$KAFKA_STATE
classpath="$(kafka_libs)/*"
heap=${TURBINE_BED_KAFKA_HEAP:-512m}
java_flags=(-Xmx"$heap" -XX:+UseSerialGC -Xss512k -XX:MaxMetaspaceSize=128m -XX:ReservedCodeCacheSize=96m -Djava.awt.headless=true
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS")

base=9092
[ -z "$KAFKA_CLUSTER" ] || base=9492
port() { echo $((base + ($1 - 1) * 100)); }
brokers() { cat "$dir/brokers" 2>/dev/null || echo 0; }
broker_pid() {
  local pid
  pid=$(cat "$dir/broker$1/pid" 2>/dev/null) && grep -qsF "$dir/broker$1/server.properties" "/proc/$pid/cmdline" && echo "$pid"
}
address() { cat "$dir/address"; }
# list PORT-OFFSET: HOST:PORT of all brokers
list() {
  local i all=()
  for i in $(seq "$(brokers)"); do all+=("$(address):$(($(port "$i") + $1))"); done
  (IFS=, && echo "${all[*]}")
}

make_keys() {
  local client=$dir/client server=$dir/server
  mkdir -p "$client" "$server"
  cd "$server"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.crt -days 3650 -subj /CN=kafka-ca 2>/dev/null
  # sign NAME SUBJECT EXTENSIONS: Kafka reads keys in PKCS 8
  sign() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -subj "$2" 2>/dev/null |
      openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile <(printf '%b\n' "$3") -out "$1.crt" 2>/dev/null
  }
  sign broker /CN=broker "extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1,IP:$KAFKA_IP,IP:$HOST_IP,DNS:localhost,DNS:kafka.k8s.test,DNS:host.k8s.test"
  sign client /CN=turbine "extendedKeyUsage=clientAuth"
  cat broker.key broker.crt ca.crt >broker.pem
  cp ca.crt client.crt client.key "$client/"
  cd - >/dev/null
  printf turbine >"$client/user"
  printf turbine-secret >"$client/password"
  printf limited >"$client/limited-user"
  printf limited-secret >"$client/limited-password"
}

# configure N TOTAL
configure() {
  local i=$1 total=$2 p voters=() j replicas=1 in_sync=1 session=15000
  p=$(port "$i")
  for j in $(seq "$total"); do voters+=("$j@127.0.0.1:$(($(port "$j") + 1))"); done
  if [ "$total" -ge 3 ]; then replicas=3 in_sync=2 session=9000; fi
  mkdir -p "$dir/broker$i"
  cat >"$dir/broker$i/server.properties" <<P
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$(IFS=, && echo "${voters[*]}")
listeners=PLAINTEXT://0.0.0.0:$p,SASL_SSL://0.0.0.0:$((p + 2)),SSL://0.0.0.0:$((p + 3)),CONTROLLER://127.0.0.1:$((p + 1))
advertised.listeners=PLAINTEXT://$(address):$p,SASL_SSL://$(address):$((p + 2)),SSL://$(address):$((p + 3))
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
log.dirs=$dir/broker$i/data

sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_turbine="turbine-secret" user_limited="limited-secret";
ssl.keystore.type=PEM
ssl.keystore.location=$dir/server/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/server/ca.crt
listener.name.ssl.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:turbine;User:CN=turbine
allow.everyone.if.no.acl.found=false

auto.create.topics.enable=false
num.partitions=1
default.replication.factor=$replicas
min.insync.replicas=$in_sync
offsets.topic.num.partitions=4
offsets.topic.replication.factor=$replicas
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$in_sync
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$in_sync
group.initial.rebalance.delay.ms=0
# Of three, a dead one is noticed within ten seconds, and its partitions move. With less, three that start on two busy cores take each
# other for dead: their controllers are late. One alone has nobody who could take over: where the
# machine is so busy that its heartbeats are late, its controller would only take all partitions from it, and every producer stands still.
broker.session.timeout.ms=$session
broker.heartbeat.interval.ms=500
# tests write fixed event times of years ago; by default such records are deleted after 30 s
log.retention.ms=-1
log.segment.bytes=268435456
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
${TURBINE_BED_KAFKA_SETTINGS:-}
P
}

# format N CLUSTER_ID
format() {
  java -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$classpath" kafka.tools.StorageTool format -t "$2" -c "$dir/broker$1/server.properties" \
    --add-scram 'SCRAM-SHA-512=[name=turbine,password=turbine-secret]' --add-scram 'SCRAM-SHA-512=[name=limited,password=limited-secret]' \
    >"$dir/broker$1/format.log" 2>&1 || { cat "$dir/broker$1/format.log" >&2; return 1; }
}

start_broker() {
  local pid
  [ -z "$(broker_pid "$1")" ] || return 0
  [ ! -e "$dir/broker$1/broker.log" ] || mv "$dir/broker$1/broker.log" "$dir/broker$1/broker.log.1"
  setsid java "${java_flags[@]}" -cp "$classpath" kafka.Kafka "$dir/broker$1/server.properties" >"$dir/broker$1/broker.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$dir/broker$1/pid"
  # until the child has become setsid and java, nobody knows it for a broker, and who waits would take it for dead
  while kill -0 "$pid" 2>/dev/null && [ -z "$(broker_pid "$1")" ]; do sleep 0.05; done
}

answers() { open_port 127.0.0.1 "$(port "$1")" || [ -z "$(broker_pid "$1")" ]; }
wait_for_broker() {
  if ! wait_until 90 "broker $1 listening" answers "$1" || [ -z "$(broker_pid "$1")" ]; then
    tail -n 20 "$dir/broker$1/broker.log" >&2
    die "broker $1 did not start; its log is $dir/broker$1/broker.log"
  fi
}

stop_broker() {
  local pid
  pid=$(broker_pid "$1") || return 0
  kill -CONT "$pid"
  kill -TERM "$pid"
  # the last of three cannot hand over its role as controller and would wait for that
  wait_until "${2:-20}" "end of broker $1" sh -c "! kill -0 $pid 2>/dev/null" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
}

signal() {
  local pid
  pid=$(broker_pid "$2") || die "broker $2 does not run"
  kill "-$1" "$pid"
  [ "$1" != KILL ] || wait_until 10 "end of broker $2" sh -c "! kill -0 $pid 2>/dev/null"
}

up() {
  local total=1 start i id
  if [ "${1:-}" = --brokers ]; then total=${2:-}; fi
  case $total in 1 | 3) ;; *) die "--brokers $total: 1 or 3" ;; esac
  [ -d "$(kafka_libs)" ] || die "Kafka is not there yet: ./run bed build"
  start=$(now_ms)
  mkdir -p "$dir"
  if [ -e "$dir/brokers" ] && [ "$(brokers)" != "$total" ]; then
    die "the data in $dir is that of $(brokers) broker(s); delete it first: kafka.sh down --wipe"
  fi
  if [ ! -e "$dir/brokers" ]; then
    choose_address >"$dir/address"
    make_keys
    id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d =)
    for i in $(seq "$total"); do
      configure "$i" "$total"
      format "$i" "$id" &
    done
    for i in $(seq "$total"); do wait -n || die "formatting failed"; done
    echo "$total" >"$dir/brokers"
    list 0 >"$dir/bootstrap"
    list 2 >"$dir/bootstrap-sasl"
    list 3 >"$dir/bootstrap-tls"
  fi
  # gone after a reboot of the machine
  [ "$(address)" = 127.0.0.1 ] || [ "$(choose_address)" = "$(address)" ] || die "the address $(address) cannot be set"
  for i in $(seq "$total"); do start_broker "$i"; done
  for i in $(seq "$total"); do wait_for_broker "$i"; done
  say "  Kafka up at $(cat "$dir/bootstrap") after $(seconds_since "$start") s"
}

down() {
  local i
  for i in 1 2 3; do stop_broker "$i" 10 & done
  wait
  [ "${1:-}" != --wipe ] || rm -rf "$dir"
}

status() {
  local i total
  total=$(brokers)
  [ "$total" != 0 ] || { say "Kafka: down"; return 0; }
  for i in $(seq "$total"); do
    if [ -n "$(broker_pid "$i")" ]; then say "Kafka: broker $i up at $(address):$(port "$i")"; else say "Kafka: broker $i down"; fi
  done
}

running() {
  local i
  for i in 1 2 3; do [ -z "$(broker_pid "$i")" ] || return 0; done
  return 1
}

tool() {
  local class
  case ${1:-} in
    topics) class=org.apache.kafka.tools.TopicCommand ;;
    groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    configs) class=kafka.admin.ConfigCommand ;;
    acls) class=org.apache.kafka.tools.AclCommand ;;
    offsets) class=org.apache.kafka.tools.GetOffsetShell ;;
    consume) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    produce) class=org.apache.kafka.tools.ConsoleProducer ;;
    txn) class=org.apache.kafka.tools.TransactionsCommand ;;
    dump) class=org.apache.kafka.tools.DumpLogSegments ;;
    *) die "tool ${1:-}: topics groups configs acls offsets consume produce txn dump" ;;
  esac
  shift
  exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$classpath" "$class" "$@"
}

# the last line of a name counts
change() {
  local i
  [[ ${1:-} == *=* ]] || die "kafka.sh set NAME=VALUE"
  for i in $(seq "$(brokers)"); do echo "$1" >>"$dir/broker$i/server.properties"; done
}

verb=${1:-}
[ $# -eq 0 ] || shift
one() { if [[ ! ${1:-} =~ ^[1-3]$ ]] || [ ! -d "$dir/broker$1" ]; then die "kafka.sh $verb N: which broker? (there are $(brokers))"; fi; }
case $verb in
  up | down | status | running | tool) "$verb" "$@" ;;
  set) change "$@" ;;
  kill) one "$@" && signal KILL "$1" ;;
  stop) one "$@" && stop_broker "$1" ;;
  start) one "$@" && start_broker "$1" && wait_for_broker "$1" ;;
  restart) one "$@" && stop_broker "$1" && start_broker "$1" && wait_for_broker "$1" ;;
  pause) one "$@" && signal STOP "$1" ;;
  resume) one "$@" && signal CONT "$1" ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; [ "$verb" = help ] || exit 2 ;;
esac
