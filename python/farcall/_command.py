"""The farcall command that belongs to the package."""

from __future__ import annotations

import os
import sys


def path() -> str:
    """Returns the path of the command. Raises FileNotFoundError if the package was built without it."""
    found = os.path.join(os.path.dirname(__file__), "bin", "farcall")
    if not os.path.exists(found):
        raise FileNotFoundError(f"{found}: the package was built without the farcall command")
    return found


def main() -> None:
    """Replaces this process by the command, with the same arguments."""
    try:
        program = path()
    except FileNotFoundError as error:
        sys.exit(f"farcall: {error}")
    os.execv(program, ["farcall", *sys.argv[1:]])
