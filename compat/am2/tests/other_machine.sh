#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Replaces ssh: runs the command without this process's environment, as on another machine.
shift
exec env -i PATH="$PATH" sh -c "$1"
