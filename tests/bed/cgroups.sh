# shellcheck shell=bash
# The cgroups of the nodes: everything lives below `k8s`, components in `k8s/system`, pods in `k8s/nodeN`. Sourced, after lib.sh.
CGROUPS=/sys/fs/cgroup

cgroup_roots() {
  local root
  if [ -e "$CGROUPS/cgroup.controllers" ]; then
    echo "$CGROUPS"
  else
    for root in "$CGROUPS"/*/; do [ "$root" = "$CGROUPS/unified/" ] || echo "${root%/}"; done
  fi
}

# make_cgroup PATH: in every hierarchy, ready to hold processes or children
make_cgroup() {
  local root file
  for root in $(cgroup_roots); do
    mkdir -p "$root/$1"
    # version 1: a new cpuset is empty, and no process can enter it before it is filled
    if [ -e "$root/$1/cpuset.cpus" ] && [ ! -e "$root/cgroup.controllers" ]; then
      for file in cpuset.cpus cpuset.mems; do cat "$root/$file" >"$root/$1/$file"; done
    fi
  done
  # version 2: children get the controllers that the parent hands down
  if [ -e "$CGROUPS/cgroup.controllers" ] && [ "$1" = k8s ]; then
    for file in "$CGROUPS" "$CGROUPS/k8s"; do
      sed 's/[a-z_]*/+&/g' "$file/cgroup.controllers" >"$file/cgroup.subtree_control" || return 1
    done
  fi
}

# enter_cgroup PATH: moves this process, and so all its children to come
enter_cgroup() {
  local root
  for root in $(cgroup_roots); do echo $$ >"$root/$1/cgroup.procs"; done
}

remove_cgroups() {
  local attempt
  for attempt in $(seq 50); do
    for root in $(cgroup_roots); do
      [ ! -d "$root/k8s" ] || find "$root/k8s" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    for root in $(cgroup_roots); do [ ! -d "$root/k8s" ] || { sleep 0.1; continue 2; }; done
    return 0
  done
  note "warning: cgroups below $CGROUPS/*/k8s are still in use after $attempt attempts"
}
