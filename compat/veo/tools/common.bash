# What the commands for kernels have in common. layout.bash, beside it, says where the headers and
# libraries are. The commands themselves are links: the name tells which one was called.

veo_tools=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$veo_tools/layout.bash"

# farcall-ncc is ncc, mk_veorun_static_ve3 is mk_veorun_static: there is one kind of target.
veo_called=${0##*/}
veo_command=${veo_called#farcall-}
veo_command=${veo_command%_ve[13]}

die() {
  printf '%s: %s\n' "$veo_called" "$*" >&2
  exit 1
}

# The folder as a plain path, also when it is missing: then the caller's message names it.
veo_folder() {
  readlink -m "$veo_tools/$1"
}

# set_tool <variable that names it> <default>: what to run goes to the array `tool`.
set_tool() {
  read -ra tool <<<"${!1:-$2}"
  command -v "${tool[0]}" >/dev/null ||
    die "'${tool[0]}' not found; install it, or say in $1 what to run instead"
}

# Kernels for other machines are compiled by other compilers (FARCALL_CC and the like), which cannot
# use the libraries here. FARCALL_VEO_LIBDIR names a folder with those for that machine. Prints
# nothing when there is no folder for the compiler in `tool`.
library_folder() {
  if [[ -n ${FARCALL_VEO_LIBDIR:-} ]]; then
    readlink -m "$FARCALL_VEO_LIBDIR"
    return
  fi
  local machine
  machine=$("${tool[@]}" -dumpmachine 2>/dev/null) || machine=$veo_machine
  [[ ${machine%%-*} != "${veo_machine%%-*}" ]] || veo_folder "$veo_lib"
}

# words_of <file>: its words, each with a zero byte behind it, in the way of the compilers' @file:
# blanks separate, both kinds of quotes hold together, a backslash makes the next character plain.
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
