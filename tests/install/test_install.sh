#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Installs the built tree into a temporary prefix, then builds and runs a consumer against it, once
# with find_package and once with pkg-config.
set -euo pipefail

if [[ $# -ne 5 ]]; then
  echo "usage: $0 <cmake> <c++ compiler> <c compiler> <source folder> <build folder>" >&2
  exit 2
fi
cmake=$1 compiler=$2 c_compiler=$3 source=$4 build=$5
consumer=$source/tests/install/consumer

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
prefix=$temporary/prefix

say() { printf '\n== %s\n' "$*"; }

say "install"
"$cmake" --install "$build" --prefix "$prefix" >"$temporary/install.log" || {
  cat "$temporary/install.log"
  exit 1
}
test -f "$prefix/include/farcall/farcall.hpp"
test -f "$prefix/lib/libfarcall.a"
test -f "$prefix/lib/libfarcall.so"
test -f "$prefix/include/farcall/farcall.h"
test -f "$prefix/include/farcall/c/equals.h"
test -f "$prefix/include/farcall/c/queue.h"

say "no installed file names the source or the build folder"
if grep -rlaF -e "$source/" -e "$build/" "$prefix"; then
  echo "the files above name $source or $build" >&2
  exit 1
fi

say "installed pages lead to installed pages and pictures"
python3 -B "$source/tests/docs/check_markdown.py" "$(dirname "$(find "$prefix" -name CHANGELOG.md)")"

say "sizes, without debug information"
install_component() { # <component>
  # A component that was not built installs nothing.
  mkdir -p "$temporary/$1"
  "$cmake" --install "$build" --component "$1" --prefix "$temporary/$1" >>"$temporary/install.log"
}
size_of() { du -sb --exclude=.debug "$1" | cut -f 1; }
check_size() { # <what> <bytes> <most bytes>
  echo "$1: $2 bytes of at most $3"
  [[ $2 -le $3 ]]
}
# `python3` and `veo_nec` are installed only by name. `veo_nec` has the files of `veo` in other folders, and is installed
# in place of it.
for component in runtime python3 veo veo_nec; do
  install_component "$component"
done
all=$(($(size_of "$prefix") + $(size_of "$temporary/python3")))
check_size runtime "$(size_of "$temporary/runtime")" 12000000
check_size "all components" "$all" 60000000
check_size "all components, with veo_nec in place of veo" \
  "$((all - $(size_of "$temporary/veo") + $(size_of "$temporary/veo_nec")))" 60000000

say "two minor versions fit into one prefix"
# Names without a number are links, which lead to the version that was installed last.
if find "$temporary/runtime" -type f | grep -v -e '/libfarcall\.so\.' -e '/farcall-[0-9]*\.[0-9]*/'; then
  echo "another version would replace the files above" >&2
  exit 1
fi

# Move the prefix after the installation: users' packages may be moved, too.
mv "$prefix" "$temporary/moved"
prefix=$temporary/moved
package=$(dirname "$(find "$prefix" -name farcall-config.cmake)")

say "consumer with find_package"
"$cmake" -S "$consumer" -B "$temporary/find_package" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_C_COMPILER="$c_compiler" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
"$cmake" --build "$temporary/find_package"
"$temporary/find_package/hello"
"$temporary/find_package/c_hello"
"$temporary/find_package/ham_hello"
if [[ -e $package/farcall-cuda-targets.cmake ]]; then
  "$temporary/find_package/gpu_hello"
fi

if [[ -e $package/farcall-cuda-targets.cmake ]]; then
  say "a project that is optimised at link time has addresses of functions on GPUs"
  mkdir "$temporary/subfolder"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(subfolder LANGUAGES CXX)' \
    'set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)' \
    'set(CMAKE_INTERPROCEDURAL_OPTIMIZATION_RELEASE ON)' "add_subdirectory($source farcall)" \
    >"$temporary/subfolder/CMakeLists.txt"
  configure_subfolder() {
    "$cmake" -S "$temporary/subfolder" -B "$temporary/subfolder/build" -G Ninja \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" -DFARCALL_WITH_CUDA=ON "$@" \
      >"$temporary/subfolder.log" 2>&1
  }
  configure_subfolder || {
    cat "$temporary/subfolder.log"
    exit 1
  }
  if ! grep -q 'gpu/worker_kernel.cu' "$temporary/subfolder/build/build.ninja" ||
    grep -P 'lto_[0-9]' "$temporary/subfolder/build/build.ninja"; then
    echo "that is how it compiles the workers" >&2
    exit 1
  fi
  if configure_subfolder -DCMAKE_CUDA_FLAGS=-dlto ||
    ! tr -s ' \n' ' ' <"$temporary/subfolder.log" | grep -qF 'Leave out -dlto'; then
    cat "$temporary/subfolder.log"
    exit 1
  fi
fi

say "Meson reads neither file sets nor generator expressions"
properties=$(sed -n '/^set_target_properties(farcall::farcall_shared /,/^)/p' \
  "$package"/farcall-targets.cmake)
# shellcheck disable=SC2016
if [[ $properties != *'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/include/farcall-0.1"'* ||
  $properties == *LINK_ONLY* ]]; then
  echo "the package has: $properties" >&2
  exit 1
fi

# These checks need the static library.
if [[ -n $(find "$prefix" -name libfarcall.a) ]]; then
  say "a project in C only is told what it lacks"
  mkdir "$temporary/c_only"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(c_only C)' \
    'set(FARCALL_USE_STATIC_LIBS ON)' 'find_package(farcall REQUIRED)' >"$temporary/c_only/CMakeLists.txt"
  if "$cmake" -S "$temporary/c_only" -B "$temporary/c_only/build" -G Ninja \
    -DCMAKE_C_COMPILER="$c_compiler" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$temporary/c_only.log" 2>&1 ||
    ! tr -s ' \n' ' ' <"$temporary/c_only.log" | grep -qF 'say project(... LANGUAGES C CXX)'; then
    cat "$temporary/c_only.log"
    exit 1
  fi

  say "consumer with find_package, linked with -static"
  "$cmake" -S "$consumer" -B "$temporary/static" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_C_COMPILER="$c_compiler" -DCMAKE_EXE_LINKER_FLAGS=-static \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  "$cmake" --build "$temporary/static" --target hello
  "$temporary/static/hello"
fi

say "consumer with pkg-config"
pc_folder=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH=$pc_folder LD_LIBRARY_PATH=${pc_folder%/pkgconfig}
read -ra flags <<<"$(pkg-config --cflags --libs farcall)"
"$compiler" -std=c++20 -O2 -o "$temporary/hello" "$consumer/main.cpp" "${flags[@]}"
"$temporary/hello"
"$c_compiler" -std=c11 -O2 -o "$temporary/c_hello" "$consumer/main.c" "${flags[@]}"
"$temporary/c_hello"
for name in am2 amudp ammpi; do
  read -ra flags <<<"$(pkg-config --cflags --libs "$name")"
  "$c_compiler" -std=c11 -O2 -o "$temporary/$name" "$consumer/am2.c" "${flags[@]}"
  "$temporary/$name"
done
read -ra flags <<<"$(pkg-config --cflags --libs ham_offload_mpi)"
"$compiler" -std=c++20 -O2 -o "$temporary/ham_hello" "$consumer/ham_main.cpp" "${flags[@]}"
"$temporary/ham_hello"
read -ra flags <<<"$(pkg-config --cflags --libs ham_offload_mpi_explicit)"
"$compiler" -std=c++20 -O2 -o "$temporary/ham_explicit" "$consumer/ham_explicit.cpp" "${flags[@]}"
"$temporary/ham_explicit"
