#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Starts four processes that exchange values, and a farcall job, with a launcher of this machine.
# Exit status 77, with the reason, if the launcher is not installed or cannot run here.
set -u

if [[ $# -ne 3 ]]; then
  echo "usage: $0 hydra|hydra-port|slurm|slurm-pmix <exchange> <program>" >&2
  exit 2
fi
launcher=$1 exchange=$2 program=$3
folder=$(cd "$(dirname "$0")" && pwd)
temporary=$(mktemp -d)
cluster=$temporary/slurm

clean_up() {
  [[ ! -e $cluster ]] || "$folder/slurm_cluster.sh" stop "$cluster"
  rm -rf "$temporary"
}
trap clean_up EXIT

need_hydra() {
  [[ -n $(type -P mpiexec.hydra) ]] || { echo "there is no mpiexec.hydra (apt-get install mpich)"; exit 77; }
}

# Prints a command that runs that many processes of the program behind it.
case $launcher in
hydra)
  need_hydra
  start=(mpiexec.hydra -n 4)
  ;;
hydra-port)
  need_hydra
  start=(mpiexec.hydra -pmi-port -n 4)
  ;;
slurm)
  SLURM_CONF=$("$folder/slurm_cluster.sh" start "$cluster") || exit
  export SLURM_CONF
  # Quiet: without it, the output says that a job waits until the one before is cleaned up.
  start=(srun --quiet --mpi=pmi2 -n 4)
  ;;
slurm-pmix)
  SLURM_CONF=$("$folder/slurm_cluster.sh" start "$cluster") || exit
  export SLURM_CONF
  srun --mpi=list 2>&1 | grep -q pmix || { echo "this Slurm has no plugin for PMIx"; exit 77; }
  start=(srun --quiet --mpi=pmix -n 4)
  ;;
*)
  echo "$launcher: no such launcher" >&2
  exit 2
  ;;
esac

fail() {
  echo "$*:"
  cat "$temporary/out"
  exit 1
}

run() { timeout 60 "${start[@]}" "$@" >"$temporary/out" 2>&1; }

run "$program" works || fail "exit status $?"
grep -qx "4 nodes" "$temporary/out" || fail "other nodes than expected"
run "$program" equals || fail "exit status $?"
[[ $(grep -c " of 4$" "$temporary/out") -eq 4 ]] || fail "other equals than expected"
[[ $launcher != slurm-pmix ]] || exit 0

run "$exchange" || fail "exit status $?"
sort "$temporary/out" >"$temporary/sorted"
for rank in 0 1 2 3; do echo "$rank of 4 by PMI 1.1: read 4"; done | cmp -s - "$temporary/sorted" ||
  fail "other lines than expected"

# The launcher returns the status that one process asks for; Slurm returns its own.
run "$exchange" abort
status=$?
if [[ $launcher == slurm ]]; then
  [[ $status -ne 0 && $status -ne 124 ]] || fail "exit status $status after an abort"
else
  [[ $status -eq 7 ]] || fail "exit status $status after an abort with 7"
fi
