"""Exceptions of the package, and exceptions of tasks on their way to the caller."""

from __future__ import annotations

import os
import pickle
import socket
import traceback
from concurrent.futures import BrokenExecutor

from . import _pickling


class NodeFailed(BrokenExecutor):
    """A worker has ended before a call had its result. Other calls are not concerned.

    `node` is the number of the worker.
    """

    node: int = 0


class Timeout(TimeoutError):
    """A call has taken longer than its time limit, and was stopped."""


class Stopped(BaseException):
    """Raised in a function that runs on a worker, if its caller stops it or its time is up.

    Like KeyboardInterrupt, the class is no Exception. A function may catch it to clean up, and should raise it again.
    """


class StartFailed(BrokenExecutor, OSError):
    """A worker could not be started."""


class RemoteError(Exception):
    """A task has raised an exception that could not be sent. The text contains its type and text."""


class RemoteTraceback(Exception):
    """Cause of an exception of a task. Its text is the traceback of the worker."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class NotDefined(RuntimeError):
    """A worker does not know a function, or does not know it any more."""


def of_status(status: str, text: str, node: int) -> Exception:
    """Returns the exception for a failure of farcall."""
    if status == "FC_NODE_FAILED":
        failed = NodeFailed(text)
        failed.node = node
        return failed
    kinds: dict[str, type[Exception]] = {
        "FC_OUT_OF_MEMORY": MemoryError,
        "FC_TIMEOUT": Timeout,
        "FC_START_FAILED": StartFailed,
        "FC_REMOTE_ERROR": RemoteError,
        "FC_UNKNOWN_FUNCTION": NotDefined,
        "FC_INVALID_ARGUMENT": ValueError,
    }
    return kinds.get(status, RuntimeError)(text)


def describe(error: BaseException) -> tuple[bytes | None, str, str, int, str]:
    """Returns a description of a task's exception, which can be pickled in any case."""
    try:
        pickled: bytes | None = _pickling.dumps_whole(error)
    except Exception:  # pylint: disable=broad-except
        pickled = None
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # pylint: disable=broad-except
        text = f"{type(error).__name__}\n"
    short = text.strip().rsplit("\n", 1)[-1] if pickled is None else type(error).__name__
    return pickled, short, text, os.getpid(), socket.gethostname()


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
    error.add_note(f"on node {node} (pid {pid}, host {host})")
    return error
