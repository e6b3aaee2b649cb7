#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Emulates three machines on this one:
#   machines.sh up | down | run MPIRUN-ARGUMENTS | agent HOST COMMAND | unplug N | plug N | crash N
# Each has its own namespaces of network (10.203.78.1 to .3), processes and host name.
set -eu
prefix=farcall-machine
network=10.203.78
machines="1 2 3"

up() {
  down
  # Containers may forbid namespaces.
  ip netns add "$prefix-1" 2>/dev/null || exit 77
  inside 1 ip link set lo up
  inside 1 ip link add bridge0 type bridge
  inside 1 ip addr add "$network.1/24" dev bridge0
  inside 1 ip link set bridge0 up
  for n in 2 3; do
    ip netns add "$prefix-$n"
    inside "$n" ip link set lo up
    inside 1 ip link add "to$n" type veth peer name eth0 netns "$prefix-$n"
    inside 1 ip link set "to$n" master bridge0 up
    inside "$n" ip addr add "$network.$n/24" dev eth0
    inside "$n" ip link set eth0 up
  done
}

down() {
  for n in $machines; do
    ip netns del "$prefix-$n" 2>/dev/null || true
  done
}

inside() {
  where=$prefix-$1
  shift
  ip netns exec "$where" "$@"
}

# Starts a daemon of mpirun, in place of ssh.
agent() {
  n=${1##*.}
  shift
  inside "$n" unshare --uts --pid --fork --mount --mount-proc \
    sh -c "hostname machine$n; $*"
}

run() {
  hosts=
  for n in $machines; do hosts="$hosts${hosts:+,}$network.$n:2"; done
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  inside 1 unshare --uts sh -c 'hostname machine1; exec "$@"' sh \
    mpirun --mca plm_rsh_agent "sh $0 agent" --mca oob_tcp_if_include "$network.0/24" \
    --host "$hosts" "$@"
}

# Unplugs or plugs the cable of the second or third machine.
unplug() { inside 1 ip link set "to$1" down; }
plug() { inside 1 ip link set "to$1" up; }

# Ends all processes of a machine at once; most of them end with the first.
crash() { ip netns pids "$prefix-$1" | xargs kill -KILL 2>/dev/null || true; }

verb=$1
shift
case $verb in
up | down | run | agent | unplug | plug | crash) "$verb" "$@" ;;
*)
  echo "machines.sh: up, down, run or agent" >&2
  exit 2
  ;;
esac
