# SPDX-License-Identifier: Apache-2.0

# Common parts of the commands for kernels. layout.bash, beside this file, has the folders of headers and
# libraries. The commands are links: the name with which a script is called selects the command.

veo_tools=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$veo_tools/layout.bash"

# farcall-ncc is ncc, and mk_veorun_static_ve3 is mk_veorun_static, since all targets are of one kind.
veo_called=${0##*/}
veo_command=${veo_called#farcall-}
veo_command=${veo_command%_ve[13]}

die() {
  printf '%s: %s\n' "$veo_called" "$*" >&2
  exit 1
}

# Prints the absolute path of a folder, or its name if it does not exist, for the caller's message.
veo_folder() {
  readlink -m "$veo_tools/$1"
}

# set_tool <variable> <default>: sets the array `tool` to the command of the variable, or the default.
set_tool() {
  read -ra tool <<<"${!1:-$2}"
  command -v "${tool[0]}" >/dev/null ||
    die "'${tool[0]}' not found; install it, or say in $1 what to run instead"
}

# Prints the folder of the libraries for the compiler in `tool`; nothing if there is none. Compilers for
# other machines (FARCALL_CC and the like) cannot use the libraries here: FARCALL_VEO_LIBDIR names a
# folder with the other machine's libraries.
library_folder() {
  if [[ -n ${FARCALL_VEO_LIBDIR:-} ]]; then
    readlink -m "$FARCALL_VEO_LIBDIR"
    return
  fi
  local machine
  machine=$("${tool[@]}" -dumpmachine 2>/dev/null) || machine=$veo_machine
  [[ ${machine%%-*} != "${veo_machine%%-*}" ]] || veo_folder "$veo_lib"
}

# words_of <file>: prints the words of a file, each followed by a zero byte, split like compilers split
# @file: at blanks, except in quotes of both kinds and after a backslash.
words_of() {
  awk '
    function finish() { if (started) printf "%s%c", word, 0; word = ""; started = 0 }
    {
      for (i = 1; i <= length($0); ++i) {
        c = substr($0, i, 1)
        if (c == "\\") { word = word substr($0, ++i, 1); started = 1 }
        else if (quote != "") { if (c == quote) quote = ""; else word = word c }
        else if (c == "\"" || c == "\047") { quote = c; started = 1 }
        else if (c == " " || c == "\t" || c == "\r") finish()
        else { word = word c; started = 1 }
      }
      if (quote == "") finish(); else word = word "\n"
    }
    END { finish() }' "$1"
}
