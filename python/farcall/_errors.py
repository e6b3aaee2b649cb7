# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package, and exceptions of tasks on their way to the caller."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import BrokenExecutor, CancelledError

from . import _core, _pickling


class Failure:
    """Members of errors of farcall: `status` as in farcall.h, and `node`, the number of the node or None."""

    status: str = ""
    node: int | None = None


class NodeFailed(Failure, BrokenExecutor):
    """A node has ended before a call had its result. Other calls are not concerned."""


class StartFailed(Failure, BrokenExecutor, OSError):
    """A worker or target could not be started."""


class Timeout(Failure, TimeoutError):
    """A call has not ended within its time limit. An executor has stopped it; in a Job, it may still be running."""


class UnknownFunction(Failure, LookupError):
    """A node has no function of this name."""


class OutOfMemory(Failure, MemoryError):
    """Memory ran out on a node, or in this process if `node` is None."""


class WrongNode(Failure, RuntimeError):
    """A node has used memory of another node as if it were its own."""


class RemoteError(Failure, Exception):
    """A task has raised an exception that could not be sent, or a handler has reported an error.

    The text contains the type and text of the exception. `type` is the type of the handler's error.
    """

    type: str = ""


class Stopped(BaseException):
    """Raised in a function that runs on a worker, if its caller stops it or its time is up.

    Like KeyboardInterrupt, the class is no Exception. A function may catch it to clean up, and should raise it again.
    """


class RemoteTraceback(Exception):
    """Cause of an exception of a task. Its text is the traceback of the worker."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


# Tracebacks name the classes as programs do.
for _public in (NodeFailed, StartFailed, Timeout, UnknownFunction, OutOfMemory, WrongNode, RemoteError, Stopped,
                RemoteTraceback):
    _public.__module__ = "farcall"

_KINDS: dict[str, type[Exception]] = {
    "FC_NODE_FAILED": NodeFailed,
    "FC_OUT_OF_MEMORY": OutOfMemory,
    "FC_TIMEOUT": Timeout,
    "FC_START_FAILED": StartFailed,
    "FC_REMOTE_ERROR": RemoteError,
    "FC_UNKNOWN_FUNCTION": UnknownFunction,
    "FC_WRONG_NODE": WrongNode,
    "FC_INVALID_ARGUMENT": ValueError,
    "FC_SETTING_ERROR": ValueError,
    "FC_CANCELLED": CancelledError,
}
_NO_NODE = 0xFFFFFFFF


def of_status(status: str, text: str, node: int, kind: str = "") -> Exception:
    """Returns the exception for a failure of farcall. `kind` is the type of a handler's error."""
    error = _KINDS.get(status, RuntimeError)(text)
    if isinstance(error, Failure):
        error.status = status
        error.node = None if node == _NO_NODE else node
    if isinstance(error, RemoteError):
        error.type = kind
    return error


def describe(error: BaseException) -> tuple[bytes | None, str, str, int, str]:
    """Returns a description of a task's exception, which can be pickled in any case."""
    from . import _exceptions

    try:
        pickled: bytes | None = _pickling.dumps_whole(error, _exceptions.reduced)
    except Exception:  # pylint: disable=broad-except
        pickled = None
    try:
        text = _exceptions.text_of(error)
    except Exception:  # pylint: disable=broad-except
        text = f"{type(error).__name__}\n"
    short = text.strip().rsplit("\n", 1)[-1] if pickled is None else type(error).__name__
    return pickled, short, text, os.getpid(), os.uname().nodename


def of_remote(description: tuple[bytes | None, str, str, int, str], node: int) -> BaseException:
    """Returns the exception that a worker has described."""
    pickled, short, text, pid, host = description
    error: BaseException | None = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)
        except Exception as failure:  # pylint: disable=broad-except
            short = f"{text.strip().rsplit(chr(10), 1)[-1]} (the exception could not be unpickled: {failure})"
    if not isinstance(error, BaseException):
        error = RemoteError(short)
    error.__cause__ = RemoteTraceback(text)
    try:
        error.add_note(f"on node {node} (pid {pid}, host {host})")
    except TypeError:
        pass  # the class has another kind of notes
    return error


_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads, _pickling.load_arguments)
_core.set_errors(of_status, of_remote)
