#!/bin/sh
# In place of ssh: runs the command as another machine would, which has none of our variables.
shift
exec env -i PATH="$PATH" sh -c "$1"
