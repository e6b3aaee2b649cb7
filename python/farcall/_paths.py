# SPDX-License-Identifier: Apache-2.0
"""Paths of the farcall command, the headers and the library of the package."""

from __future__ import annotations

import glob
import os
import shutil

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
# The package of a build tree is in the folder python of the build, and its files are links into the source tree.
_BUILD = os.path.dirname(os.path.dirname(_PACKAGE))
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def _is_program(path: str | None) -> bool:
    """True if the file is a program, and not a script that may start this package again."""
    if path is None or not os.access(path, os.X_OK) or os.path.isdir(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def command() -> str:
    """Returns the path of the farcall command: of the package, of its build, or from PATH."""
    for path in (os.path.join(_PACKAGE, "bin", "farcall"), os.path.join(_BUILD, "bin", "farcall"),
                 shutil.which("farcall")):
        if path is not None and _is_program(path):
            return path
    raise FileNotFoundError(f"there is no farcall command in {_PACKAGE}/bin or {_BUILD}/bin, nor in PATH; install or "
                            "build farcall's command")


def _first(what: str, paths: list[str]) -> str:
    for path in paths:
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"there is no {what}; looked for {', '.join(paths)}")


def _installed(*path: str) -> list[str]:
    """Returns the path below the folder in which farcall is installed, if its command is in PATH."""
    found = shutil.which("farcall")
    return [] if found is None else [os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(found))), *path)]


def get_include() -> str:
    """Returns the folder with farcall's headers, for the option -I of compilers. Raises FileNotFoundError."""
    places = [os.path.join(_PACKAGE, "include"), _SOURCE, *_installed("include")]
    header = _first("header farcall/farcall.h", [os.path.join(place, "farcall", "farcall.h") for place in places])
    return os.path.dirname(os.path.dirname(header))


def get_library() -> str:
    """Returns the path of farcall's library, for linking programs in C and C++. Raises FileNotFoundError."""
    names = ("libfarcall.so", "libfarcall.a")
    places = [os.path.join(_PACKAGE, "lib"), _BUILD, os.path.join(_BUILD, "lib"), *_installed("lib")]
    return _first("library of farcall", [os.path.join(place, name) for place in places for name in names])


def get_cmake_dir() -> str:
    """Returns the folder for CMAKE_PREFIX_PATH or farcall_DIR in CMake. Raises FileNotFoundError."""
    installed = [folder for place in _installed("lib", "cmake") for folder in sorted(glob.glob(place + "/farcall-*"))]
    places = [os.path.join(_PACKAGE, "lib", "cmake", "farcall"), _BUILD, *reversed(installed)]
    config = _first("farcall-config.cmake", [os.path.join(place, "farcall-config.cmake") for place in places])
    return os.path.dirname(config)


def libraries() -> str:
    """Returns options of a linker."""
    library = get_library()
    if library.endswith(".a"):
        return f"{library} -lstdc++ -lm -lssl -lcrypto -ldl -lpthread"
    folder = os.path.dirname(library)
    return f"-L{folder} -Wl,-rpath,{folder} -lfarcall"
