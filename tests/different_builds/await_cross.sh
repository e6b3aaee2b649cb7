#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Waits until `./run test` has built the programs for other machines, which it does while other tests run.
# Fails if that build fails or is killed. Succeeds at once if `./run test` started no such build.
set -u
[[ $# -eq 1 ]] || { echo "usage: $0 <folder of all builds>" >&2; exit 2; }
folder=$1
[[ -n ${FARCALL_CROSS:-} && -f $folder/cross.pid ]] || exit 0
builder=$(<"$folder/cross.pid")
while [[ ! -s $folder/cross.status ]] && kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
if [[ ! -s $folder/cross.status || $(<"$folder/cross.status") != 0 ]]; then
  tail -n 60 "$folder/cross.log"
  echo "the programs for other machines were not built; build/cross.log has all of the output" >&2
  exit 1
fi
