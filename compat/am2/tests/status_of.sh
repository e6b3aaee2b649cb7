#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Runs a command, prints its exit status, and exits with 0.
"$@"
echo "status $?"
