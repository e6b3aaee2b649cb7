#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Configures a project that has farcall as a subfolder: farcall is a library there, and nothing else.
set -euo pipefail

if [[ $# -ne 3 ]]; then
  echo "usage: $0 <cmake> <c++ compiler> <source folder>" >&2
  exit 2
fi
cmake=$1 compiler=$2 source=$3

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(outer LANGUAGES CXX)' "add_subdirectory($source farcall)" \
  'file(WRITE "${CMAKE_BINARY_DIR}/program.cpp" "int main() {}")' \
  'add_executable(program "${CMAKE_BINARY_DIR}/program.cpp")' \
  'target_link_libraries(program PRIVATE farcall::farcall)' >"$temporary/CMakeLists.txt"

configure() { # <build folder> [option…]
  "$cmake" -S "$temporary" -B "$1" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" "${@:2}" >"$1.log" 2>&1 || {
    cat "$1.log"
    exit 1
  }
}
fail() {
  echo "$*" >&2
  exit 1
}

configure "$temporary/build"
targets=$(ninja -C "$temporary/build" -t targets all | sed -n 's/^\([^ ]*\): .*LINKER.*/\1/p')
for other in bin/farcall libfarcall-ucx libfarcall-mpi libveo libam2 example-01 libfarcall_cuda _core; do
  ! grep -F "$other" <<<"$targets" || fail "the build has $other"
done
grep -q 'libfarcall\.a$' <<<"$targets" || fail "the build has no library"
! grep -qi -e cuda -e nvcc "$temporary/build.log" || fail "the project looks for CUDA"
! grep -q '^CMAKE_CUDA_COMPILER:' "$temporary/build/CMakeCache.txt" || fail "the project has the language CUDA"
"$cmake" --install "$temporary/build" --prefix "$temporary/prefix" >/dev/null
[[ ! -e $temporary/prefix ]] || fail "the project installs $(find "$temporary/prefix" -type f | head -n 3)"

configure "$temporary/asked" -DFARCALL_INSTALL=ON -DFARCALL_BUILD_SHARED=ON
grep -q 'libfarcall\.a' "$temporary/asked/farcall/cmake_install.cmake" || fail "a project cannot install farcall"
