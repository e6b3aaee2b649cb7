#!/bin/sh
# Compiler launcher of the preset `headers`, which checks that each file compiles, and uses no object:
# checks the syntax only, and creates an empty file in place of the object.
"$@" -fsyntax-only || exit
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || : >"$2"
  shift
done
