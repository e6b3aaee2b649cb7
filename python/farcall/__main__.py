# SPDX-License-Identifier: Apache-2.0
"""The farcall command: python -m farcall. With "serve", also serves Python functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from . import _paths, __version__

_HELP = """Usage: python -m farcall COMMAND [arguments ...]

Runs the farcall command: info, run, serve, keygen, bench, top and others; see python -m farcall COMMAND --help.

  python -m farcall serve [OPTIONS] [MODULE ...]
              Lets hosts elsewhere call Python functions on this machine, by farcall.Executor("tcp://HOST:PORT") or
              farcall.Job. Each target imports the modules first. OPTIONS are options of farcall serve, as in
              --listen HOST:PORT --key FILE. If the first word is a path of a program, serves this program.
  python -m farcall --include
              Prints the folder of the headers, for -I.
  python -m farcall --libs
              Prints options of the linker.
  python -m farcall --cmake-dir
              Prints the folder for farcall_DIR in CMake.
  python -m farcall --version
"""

_SERVE_HELP = """Usage: python -m farcall serve [OPTIONS] [MODULE ...]

Serves Python functions to programs on other machines, which call them by
farcall.Executor("tcp://HOST:PORT", key="FILE"). The workers of each program import the modules first.
`python -m farcall keygen FILE` makes a key. OPTIONS are the options of farcall serve, whose help follows:
"""

# Options of `farcall serve` without a value.
_FLAGS = ("-h", "--help", "--core-dumps", "--key-from-stdin", "--exports-from-stdin", "--host-files", "--keep-output",
          "--plain", "--i-trust-this-network")


def _end_of_options(arguments: list[str]) -> int:
    """Returns the index of the first word that is no option of `farcall serve`."""
    i = 0
    while i < len(arguments) and arguments[i].startswith("-"):
        if arguments[i] == "--":
            return i + 1
        i += 1 if arguments[i] in _FLAGS or "=" in arguments[i] else 2
    return min(i, len(arguments))


def serve_command(arguments: list[str]) -> list[str]:
    """Returns the arguments of the farcall command that serves Python, or a program. Raises ImportError."""
    import importlib.util

    from ._job import python_command

    first = _end_of_options(arguments)
    options, words = arguments[:first], arguments[first:]
    if words and os.sep in words[0] or {"-h", "--help"} & set(options):
        return ["serve", *arguments]
    for name in words:
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"there is no module {name!r} in this folder or in sys.path")
    return ["serve", *[option for option in options if option != "--"], *python_command(), *words]


def main(arguments: list[str] | None = None) -> None:
    """Replaces this process by the farcall command."""
    given = sys.argv[1:] if arguments is None else arguments
    prints: dict[str, Callable[[], str]] = {"--include": _paths.get_include, "--libs": _paths.libraries,
                                            "--cmake-dir": _paths.get_cmake_dir, "--version": lambda: __version__}
    try:
        if not given or given[0] in ("-h", "--help"):
            print(_HELP, end="")
            return
        if given[0] in prints:
            print(prints[given[0]]())
            return
        path = _paths.command()
        if given[0] == "serve" and {"-h", "--help"} & set(given):
            print(_SERVE_HELP, flush=True)
        if given[0] == "serve":
            given = serve_command(given[1:])
    except (FileNotFoundError, ImportError) as error:
        sys.exit(f"farcall: {error}")
    os.execv(path, ["farcall", *given])


if __name__ == "__main__":
    main()
