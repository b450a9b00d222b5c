{{/* Name of namespaced objects: the release's name, with `turbine` added unless it is in it. */}}
{{- define "turbine.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "turbine" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-turbine" (.Release.Name | trunc 32 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects. Namespace and release are apart, so that no two releases ever share one. */}}
{{- define "turbine.clusterName" -}}
{{- printf "turbine:%s:%s" .Release.Namespace .Release.Name -}}
{{- end -}}

{{- define "turbine.selectorLabels" -}}
app.kubernetes.io/name: turbine-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "turbine.labels" -}}
{{ include "turbine.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "turbine.image" -}}
{{- .Values.image | default (printf "turbine-operator:%s" .Chart.AppVersion) -}}
{{- end -}}

{{- define "turbine.workerImage" -}}
{{- .Values.workerImage | default (printf "turbine-worker:%s" .Chart.AppVersion) -}}
{{- end -}}

{{/*
Refuses what would make two releases act on one thing. `lookup` finds nothing while a chart is only rendered, so these
checks hold at install and upgrade.
*/}}
{{- define "turbine.checks" -}}
{{- $me := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- if .Values.crds.install -}}
  {{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "turbineapps.turbine.dev" -}}
  {{- if $crd -}}
    {{- $annotations := $crd.metadata.annotations | default dict -}}
    {{- $release := index $annotations "meta.helm.sh/release-name" -}}
    {{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
    {{- if not $release -}}
      {{- fail (printf "\n\nThe CRD turbineapps.turbine.dev is there and belongs to no Helm release. Either leave it alone with --set crds.install=false, or hand it to this release first:\n  kubectl label crd turbineapps.turbine.dev app.kubernetes.io/managed-by=Helm --overwrite\n  kubectl annotate crd turbineapps.turbine.dev meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s --overwrite\n" .Release.Name .Release.Namespace) -}}
    {{- else if ne (printf "%s/%s" $namespace $release) $me -}}
      {{- fail (printf "\n\nThe CRD turbineapps.turbine.dev belongs to the release %s in namespace %s, and only one release may own it. Install this one with --set crds.install=false. If the other release is gone for good, hand the CRD over first:\n  kubectl annotate crd turbineapps.turbine.dev meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s --overwrite\n" $release $namespace .Release.Name .Release.Namespace) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items | default list -}}
  {{- $labels := .metadata.labels | default dict -}}
  {{- if eq (index $labels "turbine.dev/scope" | default "") "cluster" -}}
    {{- $annotations := .metadata.annotations | default dict -}}
    {{- $other := printf "%s/%s" (index $annotations "meta.helm.sh/release-namespace") (index $annotations "meta.helm.sh/release-name") -}}
    {{- if ne $other $me -}}
      {{- fail (printf "\n\nThe release %s (namespace/name) watches all namespaces, so that two operators would act on the same apps. Give that release a list first: watch.namespaces.\n" $other) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $watched := .Values.watch.namespaces -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "Role" "" "").items | default list -}}
  {{- $labels := .metadata.labels | default dict -}}
  {{- if eq (index $labels "turbine.dev/scope" | default "") "namespace" -}}
    {{- $annotations := .metadata.annotations | default dict -}}
    {{- $other := printf "%s/%s" (index $annotations "meta.helm.sh/release-namespace") (index $annotations "meta.helm.sh/release-name") -}}
    {{- if and (ne $other $me) (or (not $watched) (has .metadata.namespace $watched)) -}}
      {{- fail (printf "\n\nThe release %s (namespace/name) watches the namespace %s, so that two operators would act on the same apps. Give this release other namespaces: watch.namespaces.\n" $other .metadata.namespace) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
