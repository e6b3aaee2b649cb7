#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Makes Debian packages from the files of a build, and checks them: deb.sh <build folder> <folder for the packages>
set -euo pipefail

[[ $# -eq 2 ]] || {
  echo "usage: $0 <build folder> <folder for the packages>" >&2
  exit 2
}
source=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$(readlink -f "$1")
mkdir -p "$2"
place=$(readlink -f "$2")

rm -rf "$place"/*.deb "$place"/*.changes "$place"/*.buildinfo "$place/tree"
mkdir "$place/tree"
cp -r "$source/packaging/debian" "$place/tree/debian"
cp "$source/CHANGELOG.md" "$place/tree"
(
  cd "$place/tree"
  export FARCALL_BUILD=$build
  dpkg-buildpackage --build=binary --no-sign --no-check-builddeps --jobs=auto >"$place/build.log" 2>&1
) || {
  tail -n 40 "$place/build.log" >&2
  exit 1
}
rm -rf "$place/tree"
ls -l "$place"/*.deb
lintian --fail-on error,warning "$place"/*.changes
