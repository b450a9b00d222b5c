{{/* What the operator may do in a namespace that it watches. */}}
{{- define "turbine.rules" -}}
# the controller's main watch; `dereference` reads the app again before each step that cannot be undone;
# `patch` sets and removes the finalizer, the spec is never written
- apiGroups: [turbine.dev]
  resources: [turbineapps]
  verbs: [get, list, watch, patch]
# `write_status`: the journal, by replace under its resourceVersion
- apiGroups: [turbine.dev]
  resources: [turbineapps/status]
  verbs: [get, update]
# ownerReferences with blockOwnerDeletion on children, where the cluster checks that right
- apiGroups: [turbine.dev]
  resources: [turbineapps/finalizers]
  verbs: [update]
# `apply`: the workers' StatefulSet; `delete` (orphan) to make it again when volumes grow
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# the accepted specs: `accept` writes one per spec, old ones go
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
# `apply`: compiled app, assignment, headless Service, the workers' service account
- apiGroups: [""]
  resources: [configmaps, services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# `dereference` reads what kafka.tls and kafka.sasl name, `apply` writes the control API's token;
# no list and no watch: Secrets are read one by one, by name
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
# `dereference` looks for kept state, `grow` raises the request, `delete` follows onDelete and onRecreate
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch, delete]
# `dereference` reads readiness and revision, `replace_stuck_pod` deletes one of an old revision
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# `apply`: one disruption at a time
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# `signals`: events on apps
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
