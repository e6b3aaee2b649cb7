#!/bin/sh
# Runs a compilation without code, and leaves an empty file in place of the object: the launcher of the
# preset `headers`, which asks whether each file compiles and uses no object.
"$@" -fsyntax-only || exit
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || : >"$2"
  shift
done
