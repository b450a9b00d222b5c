#!/bin/bash
# ./run demo: see it work on this machine. Starts Kubernetes and Kafka, installs the chart, applies docs/examples/quickstart.yaml
# (counts and means per key and minute), writes records, shows results, kills a worker with SIGKILL and checks that nothing
# was lost. About 45 minutes the first time on 2 cores (everything is compiled once), then under 2 minutes.
# Everything stays up: ./run bed status; ./run bed down removes it.
# ./run demo --local: without Kubernetes and Kafka, in one process, seconds after the build. Ends with Ctrl-C.
# ./run demo --context NAME --kafka HOST:PORT --image REPO:TAG [--operator-image REPO:TAG]: on a cluster and a broker that exist;
#   starts nothing and deletes nothing. The broker must be reachable from here and from pods at this address, plain text.
#   Build and push the images before: docker build --target worker|operator. The operator's default is REPO:TAG with the last
#   `worker` in it replaced by `operator`. Needs kubectl and helm.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
began=$(now_ms)
example=docs/examples/quickstart.yaml
input=events output=scores dead=events-dead
partitions=12 records=200000 keys=1000
namespace=turbine-demo system=turbine-system

local_run=no context='' kafka='' worker_image='' operator_image=''
while [ $# -gt 0 ]; do
  case $1 in
    --local) local_run=yes ;;
    --context) context=${2:?NAME} && shift ;;
    --kafka) kafka=${2:?HOST:PORT} && shift ;;
    --image) worker_image=${2:?REPO:TAG} && shift ;;
    --operator-image) operator_image=${2:?REPO:TAG} && shift ;;
    *) die "demo: unknown argument $1; see ./run help demo" ;;
  esac
  shift
done

step() { say && say "== $* ($(seconds_since "$began") s)"; }
compile() { progress 1800 "cargo build (release)" "$TURBINE_CACHE/logs/demo-build.log" build_programs; }

if [ $local_run = yes ]; then
  "$BED/packages.sh" build
  compile
  state=$(mktemp -d)
  trap 'rm -rf "$state"' EXIT
  step "a worker with a broker of its own, sample records in, results out; Ctrl-C ends it"
  say "turbine-worker run --app $example --state-dir $state --embedded-broker --generate 1000 --print-results"
  "$CARGO_TARGET_DIR/release/turbine-worker" run --app "$example" --state-dir "$state" --embedded-broker --generate 1000 --print-results
  exit
fi

own_bed=yes
if [ -n "$context$kafka$worker_image" ]; then
  own_bed=no
  if [ -z "$context" ] || [ -z "$kafka" ] || [ -z "$worker_image" ]; then die "demo: --context, --kafka and --image belong together"; fi
  if [ -z "$operator_image" ] && [[ $worker_image != *worker* ]]; then die "demo: name the operator's image with --operator-image: there is no \`worker\` in $worker_image to be replaced"; fi
  [ -n "$operator_image" ] || operator_image=${worker_image%worker*}operator${worker_image##*worker}
  for tool in kubectl helm; do command -v $tool >/dev/null || die "demo: $tool is not in PATH"; done
fi

if [ $own_bed = yes ]; then
  if reason=$(why_no_nodes); then die "this machine cannot run pods: $reason; try ./run demo --local"; fi
  "$BED/packages.sh" build api bed
  step "starting Kubernetes and Kafka, compiling Turbine beside it"
  "$BED/bed.sh" up > >(sed -u 's/^/[bed] /') 2>&1 &
  bed=$!
  compile
  wait $bed
  step "container images"
  "$BED/images.sh"
  eval "$("$BED/env.sh")"
  context=bed kafka=$TURBINE_KAFKA_BOOTSTRAP worker_image=$TURBINE_WORKER_IMAGE operator_image=$TURBINE_OPERATOR_IMAGE
else
  "$BED/packages.sh" build
  "$BED/build.sh" kafka
  compile
  TURBINE_KAFKA_LIBS=$(kafka_libs)
fi
export TURBINE_KAFKA_BOOTSTRAP=$kafka TURBINE_KAFKA_LIBS

kubectl() { command kubectl --context "$context" "$@"; }
in_namespace() { kubectl -n "$namespace" "$@"; }
testgen() { "$CARGO_TARGET_DIR/release/turbine-testgen" "$@"; }

if [ $own_bed = yes ] && kubectl get crd turbineapps.turbine.dev >/dev/null 2>&1; then
  # end-to-end tests that ran on this bed have applied it without a release
  kubectl label crd turbineapps.turbine.dev app.kubernetes.io/managed-by=Helm --overwrite >/dev/null
  kubectl annotate crd turbineapps.turbine.dev meta.helm.sh/release-name=turbine meta.helm.sh/release-namespace=$system --overwrite >/dev/null
fi
step "the chart: helm upgrade --install turbine charts/turbine"
helm upgrade --install turbine charts/turbine --kube-context "$context" -n $system --create-namespace \
  --set image="$operator_image" --set workerImage="$worker_image" --wait --timeout 3m >/dev/null
kubectl -n $system get pods

if [ $own_bed = yes ]; then
  # of an earlier demo
  kubectl delete namespace $namespace --ignore-not-found --timeout=2m
  for topic in $input $output $dead; do testgen delete-topic --topic "$topic" >/dev/null 2>&1 || true; done
fi

step "topic $input with $partitions partitions, and the app: kubectl apply -f $example"
testgen create-topic --topic $input --partitions $partitions ||
  die "the demo needs a topic $input of its own on this broker; it deletes no topic that it did not make"
kubectl create namespace $namespace
sed "s|bootstrapServers: .*|bootstrapServers: $kafka|" $example | in_namespace apply -f -
in_namespace wait --for=condition=Ready tapp/quickstart --timeout=3m
in_namespace get tapp,pods

step "$records records over $keys keys, 10 minutes of event time, up to 4 s out of order; first results:"
testgen produce --topic $input --records $records --keys $keys --rate 20000 --disorder-ms 4000 --final-watermark &
producer=$!
timeout 60 "$CARGO_TARGET_DIR/release/turbine-testgen" follow --topic $output --limit 10

victim=$(in_namespace get pods -o name | grep '^pod/quickstart' | head -n 1)
victim=${victim#pod/}
step "kill -9 the worker in pod $victim, while records flow"
if [ $own_bed = yes ]; then "$BED/kill-container.sh" "$victim" -n $namespace; else in_namespace delete pod "$victim" --grace-period=0 --force; fi
in_namespace get pods
wait $producer

step "is anything lost? An independent computation over the input, compared with the last result of every window and key"
testgen verify --input $input --output $output --size-ms 60000 --out-of-orderness-ms 5000 --agg events=count --agg bytes_total=sum:bytes --agg cpu_mean=mean:cpu --agg cpu_min=min:cpu --agg cpu_max=max:cpu --wait-s 90
in_namespace get pods
say
say "demo: done in $(seconds_since "$began") s. Look around:"
[ $own_bed = no ] || say "  eval \"\$(./run bed env)\""
say "  kubectl -n $namespace describe tapp quickstart"
if [ $own_bed = yes ]; then say "  ./run bed down      stops and removes everything"; else
  say "  remove it: kubectl -n $namespace delete tapp quickstart; helm -n $system uninstall turbine; topics $input $output $dead"
fi
