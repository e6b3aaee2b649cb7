# SPDX-License-Identifier: Apache-2.0
"""Zygote: a clean process without threads, from which workers are forked.

The process has imported farcall and the modules of `preload`, and nothing of the host's program. When the host ends,
for whatever reason, the process and all its workers end, too.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import sys

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A message is the length of a pickle, with descriptors attached, and the pickle.
LENGTH = struct.Struct("<Q")
MOST_DESCRIPTORS = 250


def send(channel: socket.socket, message: object, descriptors: tuple[int, ...] = ()) -> None:
    """Sends a message with descriptors."""
    data = pickle.dumps(message, 5)
    socket.send_fds(channel, [LENGTH.pack(len(data))], descriptors)
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """Receives a message and its descriptors. Raises EOFError if the other side has ended."""
    head, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, MOST_DESCRIPTORS)
    if len(head) < LENGTH.size:
        raise EOFError
    left, parts = LENGTH.unpack(head)[0], []
    while left > 0:
        part = channel.recv(min(left, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return pickle.loads(b"".join(parts)), descriptors


def _close_others(kept: int) -> None:
    """Closes descriptors that the host has left open for programs that it starts."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:
                pass


class _Zygote:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._statuses: dict[int, int] = {}
        self._children: set[int] = set()
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._children.discard(pid)
            self._statuses[pid] = status

    def serve(self, host: int) -> None:
        """Serves the host's requests until the host ends."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(host, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if host in ready:
                break
            try:
                request, descriptors = receive(self._channel)
                send(self._channel, getattr(self, request[0])(descriptors, *request[1:]))
            except (EOFError, OSError):
                break
        self.kill([], sorted(self._children))

    def fork(self, descriptors: list[int], settings: dict[str, Any]) -> list[int]:
        """Forks a worker for each socket, and returns their process IDs. Descriptors of pipes follow each socket."""
        pids = []
        size = 1 + len(settings["pipes"])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        for first in range(0, len(descriptors), size):
            own = descriptors[first:first + size]
            zygote = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._channel.close()
                for other in descriptors:
                    if other not in own:
                        os.close(other)
                _run_worker(own, zygote, settings)
            self._children.add(pid)
            pids.append(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        return pids

    def status(self, _: list[int], pid: int) -> int | None:
        """Returns the wait status of a worker that has ended, or None if it runs."""
        self._reap()
        return self._statuses.pop(pid, None)

    def kill(self, _: list[int], pids: list[int], number: int = signal.SIGKILL) -> None:
        """Sends a signal to workers."""
        for pid in pids:
            if pid in self._children:
                os.kill(pid, number)

    def preload(self, _: list[int], path: list[str], modules: list[str], threads: int) -> str:
        """Imports modules. Returns the text of an error, or an empty text."""
        import importlib

        from . import _worker

        if modules:
            _worker.limit_threads(threads)
        sys.path[:] = path
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception as error:  # pylint: disable=broad-except
                return f"cannot preload {module}: {type(error).__name__}: {error}"
        return ""


def _run_worker(descriptors: list[int], zygote: int, settings: dict[str, Any]) -> None:
    """Runs a worker in a forked child. Does not return."""
    descriptor, *pipes = descriptors
    code = 1
    try:
        _core.die_with_parent()
        if os.getppid() != zygote:
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        from . import _worker

        os.environ.clear()
        os.environ.update(settings["environment"])
        sys.path[:] = settings["path"]
        sys.argv[:] = settings["arguments"]
        try:
            os.chdir(settings["folder"])
        except OSError:
            pass
        _worker.limit_threads(settings["threads"])
        _worker.reseed()
        if pipes:
            from . import _output

            _output.redirect(dict(zip(settings["pipes"], pipes)), settings["levels"])
        if settings["authkey"] is not None:
            _worker.join_multiprocessing(settings["authkey"])
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        _worker.main(descriptor)
        code = 0
    except BaseException as error:  # pylint: disable=broad-except
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


def main() -> None:
    """Runs the zygote. The descriptor of the host's socket and the host's process ID are the last arguments."""
    descriptor, pid = int(sys.argv[-2]), int(sys.argv[-1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    _close_others(descriptor)
    try:
        host = os.pidfd_open(pid)
    except ProcessLookupError:
        os._exit(0)
    if os.getppid() != pid:
        os._exit(0)
    _Zygote(socket.socket(fileno=descriptor)).serve(host)
    os._exit(0)
