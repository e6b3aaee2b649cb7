# SPDX-License-Identifier: Apache-2.0
"""Processes of workers, as the host sees them: starts the zygote, and asks it for workers."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time

from . import _core, _zygote
from ._errors import StartFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Descriptor of the host's socket in the zygote.
_CHANNEL = 9
# Workers that are started at once: each needs at most four of the 250 descriptors of a message.
_MOST_AT_ONCE = 60
_START = """import sys
sys.path.insert(0, sys.argv[1])
import farcall._functions, farcall._worker, farcall._zygote
sys.path.pop(0)
farcall._zygote.main()
"""


class Zygote:
    """The host's end of a zygote, which several threads may use."""

    def __init__(self, preload: tuple[str, ...], threads: int = 1) -> None:
        self._lock = threading.Lock()
        self._host = os.getpid()
        self._ends: dict[int, str] = {}  # how workers have ended
        here, there = socket.socketpair()
        self._channel = here
        try:
            with there:
                self.pid = _spawn(there.fileno())
        except StartFailed:
            here.close()
            raise
        error = self._ask(("preload", sys.path, list(preload), threads))
        if error:
            self.close()
            raise StartFailed(error)

    def _ask(self, request: tuple[Any, ...], descriptors: tuple[int, ...] = ()) -> Any:
        with self._lock:
            try:
                _zygote.send(self._channel, request, descriptors)
                return _zygote.receive(self._channel)[0]
            except (EOFError, OSError) as error:
                raise StartFailed(f"the process that starts workers (pid {self.pid}) has ended; it runs "
                                  f"{sys.executable}") from error

    def fork(self, count: int, threads: int, pipes: list[Any] | None = None,
             levels: dict[str, int] | None = None) -> list[tuple[int, int]]:
        """Starts workers, and returns the process ID and the socket of each. Each may have Pipes for its output."""
        settings = {"environment": dict(os.environ), "path": sys.path, "arguments": sys.argv, "folder": os.getcwd(),
                    "threads": threads, "pipes": pipes[0].names if pipes else (), "levels": levels,
                    "authkey": _authkey()}
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
        pids: list[int] = []
        try:
            for first in range(0, count, _MOST_AT_ONCE):
                sent = []
                for i in range(first, min(first + _MOST_AT_ONCE, count)):
                    sent += [pairs[i][1].fileno(), *(pipes[i].theirs if pipes else ())]
                pids += self._ask(("fork", settings), tuple(sent))
            for pid in pids:
                self._ends.pop(pid, None)  # the system has given the number again
            return [(pid, here.detach()) for pid, (here, _) in zip(pids, pairs)]
        finally:
            for here, there in pairs:
                here.close()
                there.close()

    def end_of(self, pid: int, seconds: float) -> str:
        """Says how a worker has ended, as in "was killed by SIGSEGV". Waits for its end for a time."""
        return self.known_end_of(pid, seconds) or "cannot be reached any more"

    def known_end_of(self, pid: int, seconds: float = 0) -> str | None:
        """Says how a worker has ended, or returns None if it has not ended after this time."""
        end = time.monotonic() + seconds
        while (text := self._look_for_end(pid)) is None and time.monotonic() < end:
            time.sleep(0.002)
        return text

    def _look_for_end(self, pid: int) -> str | None:
        # The zygote tells the end of a worker once, and several threads may ask.
        if pid not in self._ends:
            try:
                status = self._ask(("status", pid))
            except StartFailed:
                self._ends[pid] = "has ended"
            else:
                if status is not None:
                    self._ends[pid] = _text_of(status)
        return self._ends.get(pid)

    def job(self) -> Any:
        """Returns a new job for the workers."""
        return _core.Job()

    def add_to(self, job: Any, channel: int) -> int:
        """Adds a worker of fork() to the job, and returns its node."""
        node: int = job.add(channel)
        return node

    def watch(self, pid: int) -> int:
        """Returns a descriptor that becomes readable when the worker ends. Raises OSError."""
        return os.pidfd_open(pid)

    def kill(self, pids: list[int], number: int = signal.SIGKILL) -> None:
        """Sends a signal to workers."""
        try:
            self._ask(("kill", pids, int(number)))
        except StartFailed:
            pass

    def is_usable(self) -> bool:
        """True if this process has started the zygote, and the zygote runs."""
        if os.getpid() != self._host:
            return False
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            return False

    def close(self) -> None:
        """Ends the zygote and all its workers."""
        self._channel.close()
        if os.getpid() == self._host:
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass


def _text_of(status: int) -> str:
    """Describes the wait status of a worker that has ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"was killed by {signal.Signals(number).name if number in list(signal.Signals) else number}"
    return f"has exited with status {os.WEXITSTATUS(status)}"


def _authkey() -> bytes | None:
    """Returns the key with which children of multiprocessing reach its managers, or None if it was not imported."""
    module: Any = sys.modules.get("multiprocessing.process")
    return None if module is None else bytes(module.current_process().authkey)


def _spawn(channel: int) -> int:
    """Starts the process of a zygote."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-I", "-c", _START, package, str(_CHANNEL), str(os.getpid())]
    actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                          (os.POSIX_SPAWN_DUP2, channel, _CHANNEL)]
    try:
        # SIGINT is blocked until the zygote ignores it.
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsigmask=[signal.SIGINT],
                              setsigdef=[signal.SIGPIPE])
    except OSError as error:
        raise StartFailed(f"cannot start {sys.executable}: {error}") from error


_zygotes: dict[tuple[tuple[str, ...], int], Zygote] = {}
_zygotes_lock = threading.Lock()


def zygote(preload: Any = (), threads: int = 1) -> Any:
    """Returns the zygote of this process that has imported the modules. Starts it if there is none.

    `preload` may be a Source of other workers, which is returned.
    """
    if not isinstance(preload, tuple):
        return preload
    with _zygotes_lock:
        # Numerical libraries read the number of their threads when they are loaded.
        key = preload, threads if preload else 0
        found = _zygotes.get(key)
        if found is not None and not found.is_usable():
            found.close()
            found = None
        if found is None:
            found = _zygotes[key] = Zygote(*key)
        return found


def _close_all() -> None:
    for each in _zygotes.values():
        each.close()
    _zygotes.clear()


def _forget_all() -> None:
    """In a forked child, leaves the zygotes to the parent."""
    global _zygotes_lock  # pylint: disable=global-statement
    _zygotes_lock = threading.Lock()
    for each in _zygotes.values():
        each.close()
    _zygotes.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
