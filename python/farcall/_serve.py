# SPDX-License-Identifier: Apache-2.0
"""Targets that run Python, and that were not forked from a zygote: of a Job on this machine, and of servers."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from . import _core, _worker


def versions() -> tuple[str, str]:
    """Returns the versions of Python and of the package, without parts that do not matter to pickles."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}", _core.version


def run_target() -> None:
    """Serves calls of the host that has started this process as a target. Does not return.

    The arguments are the number of threads of numerical libraries, and modules that are imported before.
    """
    code = 1
    try:
        # Ctrl-C is for the host, which ends the target.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threads = int(sys.argv[1])
        if threads > 0:
            _worker.limit_threads(threads)
        for name in sys.argv[2:]:
            importlib.import_module(name)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        if _worker.main(-1):
            code = 0
        else:
            print("farcall: this program is a target of farcall; python -m farcall serve starts it", file=sys.stderr)
            code = 2
    except BaseException as error:  # pylint: disable=broad-except
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


if __name__ == "__main__":
    run_target()
