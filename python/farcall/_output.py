# SPDX-License-Identifier: Apache-2.0
"""Lines that workers print, and their log records, on their way to the program."""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
import threading
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Longer lines are given in parts.
_MOST_IN_A_LINE = 65536
_READ_BYTES = 1 << 16
# Time for which the end of the executor waits for lines of processes that workers have left behind.
_LAST_SECONDS = 1.0
_LENGTH = struct.Struct("<I")
# Most bytes of a log record. A longer one means that the worker has written other bytes to the pipe.
_MOST_IN_A_RECORD = 64 << 20

STDOUT, STDERR = 1, 2


def _print(label: Callable[[int], str]) -> Callable[[int, int, str], None]:
    def write(node: int, stream: int, line: str) -> None:
        to = sys.stdout if stream == STDOUT else sys.stderr
        if to is not None:
            to.write(f"{label(node)}{line}\n")
            to.flush()

    return write


def _receiver(output: Any) -> Callable[[int, int, str], Any] | None:
    """Returns the function that gets lines. Raises TypeError."""
    if output is None:
        return None
    if output == "label":
        return _print(lambda node: f"{node}: ")
    if output == "print":
        return _print(lambda node: "")
    if callable(output):
        return output  # type: ignore[no-any-return]
    if hasattr(output, "log"):
        # INFO for standard output, and WARNING for standard error
        return lambda node, stream, line: output.log(20 if stream == STDOUT else 30, "node %d: %s", node, line)
    raise TypeError("output must be \"label\", \"print\", a logger, or a function of a node, a stream and a line, and "
                    f"not {output!r}")


def make(output: Any, log: str | None) -> Output | None:
    """Returns what receives lines and records of workers, or None if they keep their output."""
    receive = _receiver(output)
    if log not in (None, "forward"):
        raise ValueError(f"log must be \"forward\" or None, and not {log!r}")
    return None if receive is None and log is None else Output(receive, log is not None)


def fork(output: Output | None, zygote: Any, count: int, threads: int) -> list[tuple[int, int, Pipes | None]]:
    """Starts workers, and returns the process ID, the socket and the pipes of each."""
    if output is None:
        return [(pid, channel, None) for pid, channel in zygote.fork(count, threads)]
    pipes = [output.open() for _ in range(count)]
    try:
        forked = zygote.fork(count, threads, pipes, output.levels())
        return [(pid, channel, each) for (pid, channel), each in zip(forked, pipes)]
    finally:
        for each in pipes:
            each.close_theirs()


def _guarded(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function of the program. Prints its exception, so that later lines are passed on."""
    try:
        function(*arguments)
    except BaseException as error:  # pylint: disable=broad-except
        sys.excepthook(type(error), error, error.__traceback__)


class _Lines:
    """Lines that a worker prints to one stream."""

    def __init__(self, node: int, stream: int, receive: Callable[[int, int, str], Any]) -> None:
        self._node = node
        self._stream = stream
        self._receive = receive
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Passes the lines in `data` on. The end of the stream is an empty text."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > _MOST_IN_A_LINE or (self._rest and not data):
            lines.append(self._rest[:_MOST_IN_A_LINE])
            self._rest = self._rest[_MOST_IN_A_LINE:]
        for line in lines:
            _guarded(self._receive, self._node, self._stream, line.decode("utf-8", "replace"))


class _Records:
    """Log records of a worker."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._rest = bytearray()
        self._is_broken = False

    def feed(self, data: bytes) -> None:
        """Passes the records in `data` to the loggers of the program."""
        if self._is_broken:
            return
        self._rest += data
        while len(self._rest) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._rest)[0]
            if end > _MOST_IN_A_RECORD:
                self._is_broken = True
                self._rest.clear()
                _guarded(self._refuse)
                return
            if len(self._rest) < end:
                return
            record = bytes(self._rest[_LENGTH.size:end])
            del self._rest[:end]
            _guarded(self._handle, record)

    def _refuse(self) -> None:
        raise ValueError(f"node {self._node} has sent no log record; farcall ignores its further records")

    def _handle(self, data: bytes) -> None:
        import logging

        record = logging.makeLogRecord({**pickle.loads(data), "node": self._node})
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


class Output:
    """Pipes from workers to the program, and the thread that reads them."""

    def __init__(self, receive: Callable[[int, int, str], Any] | None, has_log: bool) -> None:
        self._receive = receive
        self._streams = (("out", "err") if receive is not None else ()) + (("log",) if has_log else ())
        self._lock = threading.Lock()
        self._sources: dict[int, _Lines | _Records] = {}
        self._poll = select.poll()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake_fd, select.POLLIN)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="farcall-output", daemon=True)
        self._thread.start()

    def open(self) -> Pipes:
        """Makes the pipes of a worker that is about to start."""
        return Pipes(self._streams)

    def levels(self) -> dict[str, int] | None:
        """Returns the levels of the loggers of the program, by their names, or None without forwarding."""
        if "log" not in self._streams:
            return None
        import logging

        levels = {name: logger.level for name, logger in logging.root.manager.loggerDict.items()
                  if isinstance(logger, logging.Logger) and logger.level}
        return {"": logging.root.level, **levels}

    def attach(self, pipes: Pipes, node: int) -> None:
        """Begins to read what the worker of a node writes."""
        with self._lock:
            for name, descriptor in pipes.take().items():
                source: _Lines | _Records
                if name == "log":
                    source = _Records(node)
                else:
                    assert self._receive is not None
                    source = _Lines(node, STDOUT if name == "out" else STDERR, self._receive)
                self._sources[descriptor] = source
                self._poll.register(descriptor, select.POLLIN)
        os.eventfd_write(self._wake_fd, 1)

    def runs_here(self) -> bool:
        """True if the calling thread passes lines on."""
        return self._thread is threading.current_thread()

    def close(self) -> None:
        """Waits until all that workers have written was passed on, after the workers have ended."""
        self._is_closed = True
        os.eventfd_write(self._wake_fd, 1)
        if not self.runs_here():
            self._thread.join()

    def _run(self) -> None:
        while self._sources or not self._is_closed:
            events = self._poll.poll(_LAST_SECONDS * 1000 if self._is_closed else None)
            if not events:
                break  # only processes that workers have left behind have the pipes
            for descriptor, _ in events:
                if descriptor == self._wake_fd:
                    os.eventfd_read(descriptor)
                else:
                    self._read(descriptor)
        for descriptor in list(self._sources):
            self._end(descriptor)
        os.close(self._wake_fd)

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _READ_BYTES)
        self._sources[descriptor].feed(data)
        if not data:
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        with self._lock:
            self._poll.unregister(descriptor)
            del self._sources[descriptor]
        os.close(descriptor)


class Pipes:
    """Pipes of one worker, from which the program reads."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._ours: list[int] = []
        self.theirs: list[int] = []
        for _ in names:
            ours, theirs = os.pipe()
            self._ours.append(ours)
            self.theirs.append(theirs)

    def take(self) -> dict[str, int]:
        """Returns the ends of the program, which the caller then owns."""
        taken = dict(zip(self.names, self._ours))
        self._ours.clear()
        return taken

    def close_theirs(self) -> None:
        """Closes the ends of the worker, which has them."""
        for descriptor in self.theirs:
            os.close(descriptor)
        self.theirs.clear()

    def __del__(self) -> None:
        for descriptor in self._ours:
            os.close(descriptor)


# ---- in workers


def redirect(descriptors: dict[str, int], levels: dict[str, int] | None) -> None:
    """Sends the output of this worker, and its log records, to the pipes."""
    for name, to in (("out", 1), ("err", 2)):
        if name in descriptors:
            os.dup2(descriptors[name], to)
            os.close(descriptors[name])
    if "log" in descriptors:
        os.set_inheritable(descriptors["log"], False)
        _forward(descriptors["log"], levels or {})


def _forward(descriptor: int, levels: dict[str, int]) -> None:
    import logging

    class Handler(logging.Handler):
        """Sends records to the program."""

        def emit(self, record: logging.LogRecord) -> None:
            try:
                data = pickle.dumps(_members(record), 5)
                if len(data) + _LENGTH.size > _MOST_IN_A_RECORD:
                    raise ValueError(f"a log record of {len(data)} bytes is too long")
            except Exception:  # pylint: disable=broad-except
                self.handleError(record)
                return
            left = memoryview(_LENGTH.pack(len(data)) + data)
            while left:
                left = left[os.write(descriptor, left):]

    def _members(record: logging.LogRecord) -> dict[str, Any]:
        members = {**record.__dict__, "msg": record.getMessage(), "args": None}
        if record.exc_info:
            members["exc_text"] = record.exc_text or logging.Formatter().formatException(record.exc_info)
        members["exc_info"] = None
        plain = (str, int, float, bool, type(None))
        return {name: value if isinstance(value, plain) else str(value) for name, value in members.items()}

    logging.root.addHandler(Handler())
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)
