#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Runs tests of xfstests in the working folder: xfstests.sh CHECKOUT RESULTS ARGUMENT_OF_CHECK…
#
# The working folder is a mount of host files (type fuse.farcall), or a local folder, over which this program mounts a
# file system in memory. xfstests mounts and unmounts its test device itself. Its device here is the name `farcall`,
# which both kinds of mount have as their source: the programs `mount`, `df` and `findmnt` that xfstests finds first make
# a second mount of the working folder, call its type `fuse`, and hide the first mount.
set -eu
checkout=$1 results=$2
shift 2
[ -n "${IN_OWN_NAMESPACE:-}" ] || exec env IN_OWN_NAMESPACE=1 unshare -m sh "$0" "$checkout" "$results" "$@"

type=$(stat -f -c %T .)
if [ "$type" != fuseblk ] && [ "$type" != fuse ]; then
  mount -t tmpfs farcall "$PWD"
  cd "$PWD"
fi
real_mount=$(command -v mount) real_df=$(command -v df) working=$PWD
mkdir -p "$results/programs" "$results/test" "$results/base"
cat >"$results/programs/mount" <<END
#!/bin/bash
for last; do :; done
[[ " \$* " == *" -t fuse.farcall "* ]] || exec $real_mount "\$@"
$real_mount --bind "$working" "\$last" || exit
# A second mount takes the options that concern no file system.
[[ " \$* " != *ro[,\ ]* ]] || exec $real_mount -o remount,bind,ro "\$last"
END
cat >"$results/programs/df" <<END
#!/bin/sh
$real_df -a "\$@" | grep -v "[[:space:]]$working\$" | sed -E 's/^(farcall +)(fuse.farcall|tmpfs) /\1fuse /'
END
cat >"$results/programs/findmnt" <<END
#!/bin/sh
$(command -v findmnt) "\$@" | grep -v "[[:space:]]$working\$"
END
chmod +x "$results"/programs/*
echo >"$results/options"
cd "$checkout"
exec env PATH="$results/programs:$PATH" HOST_OPTIONS="$results/options" RESULT_BASE="$results/base" \
  FSTYP=fuse FUSE_SUBTYP=.farcall TEST_DEV=farcall TEST_DIR="$results/test" ./check "$@"
