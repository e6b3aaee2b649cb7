#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Makes a tarball of the last commit: source.sh <folder for the tarball>
#
# Two tarballs of one commit are equal. The tarball contains its commit (cmake/commit.txt), so that it builds without
# git.
set -euo pipefail

[[ $# -eq 1 ]] || {
  echo "usage: $0 <folder for the tarball>" >&2
  exit 2
}
mkdir -p "$1"
place=$(readlink -f "$1")
cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
version=$(sed -n 's/^  VERSION //p' CMakeLists.txt)
[[ -z $(git status --porcelain --untracked-files=no) ]] ||
  echo "source.sh: there are changes that are not committed; the tarball has the last commit" >&2
rm -f "$place"/farcall-*.tar.gz "$place"/farcall-*.tar.gz.sha256
git archive --format=tar --prefix="farcall-$version/" HEAD | gzip -n -9 >"$place/farcall-$version.tar.gz"
(cd "$place" && sha256sum "farcall-$version.tar.gz" | tee "farcall-$version.tar.gz.sha256")
