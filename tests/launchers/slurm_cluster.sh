#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Runs a Slurm cluster of this machine alone, in its own folder: without systemd and control
# groups, independent of any other Slurm. Needs root, for slurmd, and Debian's packages slurmctld, slurmd,
# slurm-client, munge and slurm-wlm-basic-plugins.
#
#   slurm_cluster.sh start DIR   makes DIR, starts the daemons, waits until the node is idle, and
#                                prints the file to name in SLURM_CONF. Exit status 77, and why on
#                                standard error: Slurm is not installed, or cannot run here.
#   slurm_cluster.sh stop DIR    ends the jobs and the daemons, and removes DIR.
#
# The daemons listen on the loopback interface only. The node has 64 processors for Slurm, so that
# jobs of many processes start on any machine.
set -u

start_seconds=30
stop_seconds=10

if [[ $# -ne 2 || ! ($1 == start || $1 == stop) ]]; then
  echo "usage: $0 start|stop DIR" >&2
  exit 2
fi
verb=$1
dir=$(realpath -m -- "$2")
configuration=$dir/slurm.conf
# Debian's daemons are installed there, and missing in most users' PATH.
PATH=$PATH:/usr/sbin:/sbin

is_alive() { [[ -r /proc/$1/stat && $(<"/proc/$1/stat") != *') Z '* ]]; }

# Tries a command every 0.1 s, for that many seconds; returns 0 once it succeeds.
within() {
  local -i until=$((SECONDS + $1))
  shift
  while ! "$@"; do
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

# Prints the pid of that daemon if it runs: a pid file may be old, and its number reused.
daemon() {
  local pid
  pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 0
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$1" ]] && echo "$pid"
}

# Prints this cluster's processes between slurmd and its jobs.
steps() {
  local pid
  for pid in $(pgrep -x slurmstepd); do
    { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qxF "SLURM_CONF=$configuration" && echo "$pid"
  done
}

descendants() {
  local child
  for child in $(pgrep -P "$1"); do
    descendants "$child"
    echo "$child"
  done
}

have_no_jobs() { [[ -z $(SLURM_CONF=$configuration timeout 5 squeue -h 2>/dev/null) && -z $(steps) ]]; }
have_ended() {
  local pid
  for pid in "$@"; do
    is_alive "$pid" && return 1
  done
  return 0
}

stop() {
  local -a all
  local name pid
  if [[ -n $(daemon slurmctld) ]]; then
    SLURM_CONF=$configuration timeout 5 scancel --signal=KILL --full --state=RUNNING >/dev/null 2>&1
    SLURM_CONF=$configuration timeout 5 scancel --user=root >/dev/null 2>&1
    within $stop_seconds have_no_jobs
  fi
  for pid in $(steps); do
    mapfile -t all < <(descendants "$pid")
    kill -KILL "$pid" "${all[@]}" 2>/dev/null
  done
  # End munged last: the other daemons authenticate through it.
  for name in slurmd slurmctld munged; do
    pid=$(daemon $name)
    [[ -n $pid ]] || continue
    kill -TERM "$pid"
    within $stop_seconds have_ended "$pid" || kill -KILL "$pid"
  done
  rm -rf -- "$dir"
}

# Prints the reason and the end of the daemons' logs, removes everything, and exits.
give_up() {
  local log
  echo "slurm_cluster.sh: $1" >&2
  for log in "$dir"/*.log; do
    [[ -s $log ]] && { echo "${log##*/}:"; tail -n 5 "$log"; } >&2
  done
  [[ -e $dir/ours ]] && stop
  exit 77
}

free_ports() {
  python3 - <<'PYTHON'
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in taken))
PYTHON
}

is_idle() { [[ $(SLURM_CONF=$configuration timeout 5 sinfo -h -o %T 2>/dev/null) == idle ]]; }

start() {
  local tool name ports
  for tool in munged slurmctld slurmd srun sinfo squeue scancel python3 pgrep; do
    [[ -n $(type -P $tool) ]] || give_up "there is no $tool (apt-get install slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins procps)"
  done
  [[ $(id -u) == 0 ]] || give_up "slurmd needs root"
  [[ ! -e $dir ]] || { echo "slurm_cluster.sh: $dir exists" >&2; exit 2; }
  # The address of a Unix socket holds 107 bytes.
  ((${#dir} < 80)) || { echo "slurm_cluster.sh: $dir is too long a name for sockets in it" >&2; exit 2; }
  (umask 022 && mkdir -p -- "$dir"/{state,spool} && touch "$dir/ours") || exit 2
  name=$(uname -n)
  name=${name%%.*}
  read -r -a ports < <(free_ports)

  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  cat >"$configuration" <<SLURM
ClusterName=farcall
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
NodeName=$name NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
SLURM

  # Daemons write to their logs; before they have opened them, or if they cannot, to start.log.
  # --force: munged otherwise refuses a folder below one that others may write to.
  munged --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" --num-threads=2 \
    --log-file="$dir/munged.log" --pid-file="$dir/munged.pid" --seed-file="$dir/munge.seed" \
    >>"$dir/start.log" 2>&1 </dev/null || give_up "munged does not start"
  export SLURM_CONF=$configuration
  slurmctld >>"$dir/start.log" 2>&1 </dev/null || give_up "slurmctld does not start"
  slurmd >>"$dir/start.log" 2>&1 </dev/null || give_up "slurmd does not start"
  within $start_seconds is_idle || give_up "the node is not idle after $start_seconds s, but '$(timeout 5 sinfo -h -o %T 2>&1)'"
  echo "$configuration"
}

if [[ $verb == start ]]; then
  start
elif [[ -e $dir/ours ]]; then
  stop
elif [[ -e $dir ]]; then
  echo "slurm_cluster.sh: $dir is none of its folders" >&2
  exit 2
fi
