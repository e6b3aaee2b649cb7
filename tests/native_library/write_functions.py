# SPDX-License-Identifier: Apache-2.0
"""Writes functions with random signatures in C, and a table of them: write_functions.py <folder>

functions.c has the functions. Each stores its arguments where `recorded` finds them, and returns one of
them. native_functions.inc has a row for each: its name, its signature, and the index of the parameter
that it returns, or -1.
"""

import pathlib
import random
import sys

TYPES = {"b": "signed char", "B": "unsigned char", "?": "_Bool", "h": "short", "H": "unsigned short",
         "i": "int", "I": "unsigned int", "l": "long", "L": "unsigned long", "q": "long long",
         "Q": "unsigned long long", "n": "ptrdiff_t", "N": "size_t", "f": "float", "d": "double", "p": "void*"}
MOST = 127
HEAD = f"""#include <stddef.h>
#include <string.h>

static unsigned char stored[{MOST}][8];

static void store(int index, const void* value, size_t size) {{
  memset(stored[index], 0, sizeof stored[index]);
  memcpy(stored[index], value, size);
}}

void recorded(void* to) {{ memcpy(to, stored, sizeof stored); }}
"""


def signatures():
    """Yields (letters of the parameters, index of the returned one or -1)."""
    for letter in TYPES:
        yield letter, 0
        yield letter * 20, 19
    yield "", -1
    choice = random.Random(7)
    letters = list(TYPES)
    for count in [*range(1, 21)] * 5 + [MOST] * 3:
        # Prefer reals in some functions, so that all registers for them are used.
        some = "fd" * choice.choice((1, 20)) + "".join(letters)
        parameters = "".join(choice.choice(some) for _ in range(count))
        yield parameters, choice.randrange(-1, count)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    code, rows = [HEAD], []
    for number, (parameters, returned) in enumerate(signatures()):
        result = "v" if returned < 0 else parameters[returned]
        declared = ", ".join(f"{TYPES[t]} a{i}" for i, t in enumerate(parameters)) or "void"
        code.append(f"{TYPES.get(result, 'void')} random_{number}({declared});\n"
                    f"{TYPES.get(result, 'void')} random_{number}({declared}) {{\n"
                    + "".join(f"  store({i}, &a{i}, sizeof a{i});\n" for i in range(len(parameters)))
                    + (f"  return a{returned};\n" if returned >= 0 else "") + "}\n")
        # Two question marks in a row could begin a trigraph.
        signature = f"{result}({parameters})".replace("?", "\\?")
        rows.append(f'{{"random_{number}", "{signature}", {returned}}},\n')
    (folder / "functions.c").write_text("\n".join(code), encoding="utf-8")
    (folder / "native_functions.inc").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
