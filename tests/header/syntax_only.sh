#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Compiler launcher of the preset `headers`, which checks that each file compiles, and uses no object:
# checks the syntax only, and creates an empty file in place of the object. The standard headers of C++
# come from std.pch or std-pic.pch in the build folder, which ./run headers makes. Missing includes of
# standard headers are found by check_std_includes.py. A file that does not compile with precompiled
# headers is compiled without.
case " $* " in
*" -std=c++20 "*" -fPIC "* | *" -fPIC "*" -std=c++20 "*) precompiled=std-pic.pch ;;
*" -std=c++20 "*) precompiled=std.pch ;;
*) precompiled= ;;
esac
if [ -n "$precompiled" ] && messages=$("$@" -fsyntax-only -include-pch $precompiled 2>&1); then
  [ -z "$messages" ] || printf '%s\n' "$messages" >&2
else
  "$@" -fsyntax-only || exit
fi
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || : >"$2"
  shift
done
