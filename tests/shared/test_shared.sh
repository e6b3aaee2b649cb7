#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Installs a build of farcall as a shared library, and runs programs that find the library with
# find_package and with pkg-config.
set -euo pipefail

if [[ $# -ne 4 ]]; then
  echo "usage: $0 <cmake> <c++ compiler> <build folder> <source folder>" >&2
  exit 2
fi
cmake=$1 compiler=$2 build=$3 source=$4
consumer=$source/tests/shared/consumer

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
prefix=$temporary/prefix

say() { printf '\n== %s\n' "$*"; }
quietly() {
  "$@" >"$temporary/log" 2>&1 || {
    cat "$temporary/log"
    exit 1
  }
}

say "farcall as a shared library"
for component in runtime dev; do quietly "$cmake" --install "$build" --component "$component" --prefix "$prefix"; done
file=$prefix/lib/libfarcall.so
test -e "$file"

say "programs, with find_package"
quietly "$cmake" -S "$consumer" -B "$temporary/consumer" -G Ninja \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DFARCALL_SOURCE_FOLDER="$source"
quietly "$cmake" --build "$temporary/consumer"
for program in hidden without_rtti; do
  say "$program"
  "$temporary/consumer/$program"
done
say "plug_ins"
"$temporary/consumer/plug_ins" "$temporary/consumer/libplug_in.so" \
  "$temporary/consumer/libearly_plug_in.so"

say "a program, with pkg-config"
folder=$(dirname "$file")
export PKG_CONFIG_PATH=$folder/pkgconfig LD_LIBRARY_PATH=$folder
read -ra flags <<<"$(pkg-config --cflags --libs farcall)"
"$compiler" -std=c++20 -o "$temporary/hello" "$source/tests/install/consumer/main.cpp" "${flags[@]}"
"$temporary/hello"

say "an installed program, moved with the library"
quietly "$cmake" --install "$temporary/consumer" --prefix "$prefix"
mv "$prefix" "$temporary/moved"
env -u LD_LIBRARY_PATH "$temporary/moved/bin/hidden"
