# SPDX-License-Identifier: Apache-2.0
"""Jobs of equals: every process runs the program, as in MPI."""

from __future__ import annotations

import atexit
import copy
import functools
import operator
import os
import pickle
import re
import signal
import struct
import sys
import threading
from collections.abc import Callable

from . import _core, _errors, _job, _pickling, _worker
from ._job import Job, NodeEvent, options_of
from ._native import timeout_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A broadcast begins with a block of this size: kind, number of buffers, size of the pickle, and a short pickle.
_BLOCK = 512
_HEAD = struct.Struct("<IIQ")
_SIZE = struct.Struct("<Q")
# Kinds of broadcasts: an object, a buffer, and the text of an error.
_OBJECT, _BUFFER, _ERROR = range(3)
_FAILED = 1 << 63

# Kinds of core.combine().
_REDUCE, _ALL_REDUCE, _SCAN = range(3)


def _for_arrays(function: Callable[[Any, Any], Any],
                each: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a function that calls `each`, with the module NumPy, for arrays of NumPy, else `function`."""
    def choose(left: Any, right: Any) -> Any:
        if not isinstance(left, _arrays()):
            return function(left, right)
        numpy: Any = sys.modules["numpy"]
        return numpy.asarray(each(numpy, left, right), left.dtype)

    return choose


# The named operations: their numbers in the C interface, and functions for objects.
_OPERATIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "sum": (1, operator.add),
    "prod": (2, operator.mul),
    "min": (3, _for_arrays(min, lambda numpy, left, right: numpy.where(right < left, right, left))),
    "max": (4, _for_arrays(max, lambda numpy, left, right: numpy.where(left < right, right, left))),
    "band": (5, operator.and_),
    "bor": (6, operator.or_),
    "bxor": (7, operator.xor),
    "land": (8, _for_arrays(lambda left, right: bool(left and right),
                            lambda numpy, left, right: numpy.logical_and(left, right))),
    "lor": (9, _for_arrays(lambda left, right: bool(left or right),
                           lambda numpy, left, right: numpy.logical_or(left, right))),
}
# Operations that are for integers.
_FOR_INTEGERS = ("band", "bor", "bxor")
# Numbers of types in the C interface, by the kind of the number and its size.
_TYPES = {
    "i": {1: 1, 2: 2, 4: 3, 8: 4},
    "u": {1: 5, 2: 6, 4: 7, 8: 8},
    "f": {4: 9, 8: 10},
}
_FORMATS = dict(enumerate("bhiqBHIQfd", 1))
_KINDS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"), **dict.fromkeys("fd", "f")}
# Names of members and shapes in the format of a buffer, and letters for pointers, which mean nothing on other nodes.
_NAMES = re.compile(r":[^:]*:|\([0-9,]*\)")
_POINTERS = re.compile(r"[OPXz&]|Z(?![fdg])")


class Equals(Job):
    """A job of equals. `rank` is the number of this process, and `size` the number of processes.

    barrier(), allgather(), bcast(), reduce(), allreduce(), scan() and end() are collectives: all processes call them
    in the same order, in the thread that has made the job. Calls of other processes run in a thread of their own.
    """

    def __init__(self, *, output: Any = None, timeout: float | None = None, **options: Any) -> None:
        """Makes the job; see spmd()."""
        made = options_of({"progress": "thread", **options})
        self._limit_ns = timeout_ns(timeout)
        # Before the job, because other processes may call this one as soon as it has joined.
        _core.take_part(_errors.describe)
        self._begin(made, output, None, True)
        _job._jobs.discard(self)  # pylint: disable=protected-access
        self.rank: int = self.core.own()
        self.size: int = _core.job_size(self.core)
        self.calls.has_tasks = True
        self.core.set_hooks(_worker._begin_call, _worker._end_call)  # pylint: disable=protected-access
        threading.Thread(target=_serve, name="farcall-server", daemon=True).start()

    def __enter__(self) -> Equals:
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            self.abandon()

    def __repr__(self) -> str:
        return f"<farcall.Equals, rank {self.rank} of {self.size}>"

    def on_node_change(self, callback: Callable[[NodeEvent], Any]) -> None:
        """Raises RuntimeError, because nodes of a job of equals do not change."""
        raise RuntimeError("the processes of a job of equals neither join nor leave")

    # ---- the end

    def end(self) -> None:
        """Ends the job, once all processes call this function and all calls have ended. Waits without a time limit."""
        if self.has_ended or self._pid != os.getpid():  # a forked child leaves the job to its parent
            return
        try:
            _uninterrupted(self.calls.close)
        except BaseException:
            self.abandon()
            raise
        self._finalizer.detach()
        self._listener.end()

    def abandon(self) -> None:
        """Leaves the job as it is, after an error: when this process ends, all processes of the job are ended."""
        if not self.has_ended:
            self._finalizer.detach()
            _core.abandon_job(self.core)

    # ---- collectives

    def _limit(self, timeout: float | None) -> int:
        return self._limit_ns if timeout is None else timeout_ns(timeout)

    def _root(self, root: Any) -> int:
        """Returns a rank as an int. Integers of NumPy are ranks, too."""
        try:
            rank = operator.index(root)
        except TypeError:
            rank = -1
        if not 0 <= rank < self.size:
            raise ValueError(f"root must be a rank from 0 to {self.size - 1}, and not {root!r}")
        return rank

    def barrier(self, timeout: float | None = None) -> None:
        """Waits until all processes have called this function, at most for `timeout` seconds.

        After farcall.Timeout, no collective of the job can succeed.
        """
        _core.barrier(self.core, self._limit(timeout))

    def allgather(self, value: Any, timeout: float | None = None) -> list[Any]:
        """Returns a list of the values of all processes, in the order of the ranks. The values are pickled.

        If a value cannot be pickled, its process gets the error, and the others get RemoteError.
        """
        limit = self._limit(timeout)
        failure: BaseException | None = None
        try:
            data = _pickling.dumps_whole(value)
            head = _SIZE.pack(len(data))
        except Exception as error:  # pylint: disable=broad-except
            failure, data = error, f"{type(error).__name__}: {error}".encode()
            head = _SIZE.pack(len(data) | _FAILED)
        space = _BLOCK - _SIZE.size
        block = head + data[:space].ljust(space, b"\0")
        blocks = memoryview(_core.all_gather(self.core, block, limit))
        sizes = [_SIZE.unpack_from(blocks, i * _BLOCK)[0] for i in range(self.size)]
        longest = max(size & ~_FAILED for size in sizes)
        parts, length, skip = blocks, _BLOCK, _SIZE.size
        if longest > space:
            parts = memoryview(_core.all_gather(self.core, data.ljust(longest, b"\0"), limit))
            length, skip = longest, 0
        if failure is not None:
            raise failure
        values = []
        for rank, size in enumerate(sizes):
            part = parts[rank * length + skip:][:size & ~_FAILED]
            if size & _FAILED:
                raise _not_sent(rank, bytes(part))
            values.append(pickle.loads(part))
        return values

    def bcast(self, value: Any = None, root: int = 0, timeout: float | None = None) -> Any:
        """Returns the value of the process `root` on all processes. Other processes need not give a value.

        If `value` is a writable buffer on `root`, such as an array or bytearray, the other processes give a buffer of
        the same size, which is filled without a pickle, and returned. Without one, they get an array of NumPy like the
        root's, or a bytearray. Other values are pickled.
        """
        root = self._root(root)
        limit = self._limit(timeout)
        return self._send(value, root, limit) if self.rank == root else self._receive(value, root, limit)

    def allreduce(self, value: Any, op: str | Callable[[Any, Any], Any] = "sum", timeout: float | None = None) -> Any:
        """Combines the values of all processes, in the order of the ranks, and returns the result on all of them.

        `op` is "sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", or an associative function of two
        values. A named operation combines arrays of NumPy, and other writable buffers of numbers, element by element,
        without a pickle; the result is a new buffer. The buffers of all processes must have the same size and type.
        Other values are pickled, and also arrays whose elements are no integers, floats or doubles. If an operation
        raises an exception, all processes get it.
        """
        return self._combine(_ALL_REDUCE, value, op, 0, timeout)

    def reduce(self, value: Any, op: str | Callable[[Any, Any], Any] = "sum", root: int = 0,
               timeout: float | None = None) -> Any:
        """Combines values like allreduce(). Returns the result on the process `root`, and None on the others."""
        root = self._root(root)
        return self._combine(_REDUCE, value, op, root, timeout)

    def scan(self, value: Any, op: str | Callable[[Any, Any], Any] = "sum", timeout: float | None = None) -> Any:
        """Combines values like allreduce(). Each process gets the result of the processes up to itself."""
        return self._combine(_SCAN, value, op, 0, timeout)

    def _combine(self, kind: int, value: Any, op: str | Callable[[Any, Any], Any], root: int,
                 timeout: float | None) -> Any:
        limit = self._limit(timeout)
        if not callable(op) and (not isinstance(op, str) or op not in _OPERATIONS):
            raise ValueError(f"op must be a function or one of {', '.join(_OPERATIONS)}, and not {op!r}")
        has_result = kind != _REDUCE or self.rank == root
        operation = None if callable(op) else _OPERATIONS[op][0]
        number = None if operation is None else _type_of(value)
        if operation is not None and number is not None:
            if op in _FOR_INTEGERS and number in _TYPES["f"].values():
                raise ValueError(f"the operation {op!r} is for integers")
            result = _copy_of(value, number)
            _core.combine(self.core, kind, result, number, operation, root, limit)
            return result if has_result else None
        values = self.allgather(value, timeout)
        if not has_result:
            return None
        if kind == _SCAN:
            del values[self.rank + 1:]
        return functools.reduce(op if callable(op) else _OPERATIONS[op][1], values)

    def _send(self, value: Any, root: int, limit: int) -> Any:
        failure: BaseException | None = None
        kind, data = _OBJECT, b""
        buffers: list[Any] = []
        try:
            data, *buffers = _pickling.dumps(value)
            own = None if buffers else _writable(value)
            if own is not None:
                kind, data, buffers = _BUFFER, b"", [own]
        except Exception as error:  # pylint: disable=broad-except
            failure, kind, data = error, _ERROR, f"{type(error).__name__}: {error}".encode()
        head = _HEAD.pack(kind, len(buffers), len(data)) + data[:_BLOCK - _HEAD.size]
        _core.broadcast(self.core, head.ljust(_BLOCK, b"\0"), root, limit)
        if len(data) > _BLOCK - _HEAD.size:
            _core.broadcast(self.core, data, root, limit)
        if buffers:
            sizes = b"".join(_SIZE.pack(memoryview(buffer).nbytes) for buffer in buffers)
            _core.broadcast(self.core, sizes, root, limit)
        for buffer in buffers:
            _core.broadcast(self.core, buffer, root, limit)
        if failure is not None:
            raise failure
        return value

    def _receive(self, value: Any, root: int, limit: int) -> Any:
        block = bytearray(_BLOCK)
        _core.broadcast(self.core, block, root, limit)
        kind, count, size = _HEAD.unpack_from(block)
        data = block[_HEAD.size:_HEAD.size + size]
        if size > _BLOCK - _HEAD.size:
            data = bytearray(size)
            _core.broadcast(self.core, data, root, limit)
        if kind == _ERROR:
            raise _not_sent(root, bytes(data))
        sizes: tuple[int, ...] = ()
        if count:
            packed = bytearray(count * _SIZE.size)
            _core.broadcast(self.core, packed, root, limit)
            sizes = struct.unpack(f"<{count}Q", packed)
        own = _writable(value)
        fits = own is not None and sizes == (own.nbytes,)
        buffers: list[Any] = [own] if fits else [bytearray(each) for each in sizes]
        for buffer in buffers:
            _core.broadcast(self.core, buffer, root, limit)
        if fits:
            return value
        if own is not None and count:
            raise ValueError(f"the buffer has {own.nbytes} bytes, and the buffer of node {root} has {sum(sizes)}")
        return buffers[0] if kind == _BUFFER else pickle.loads(data, buffers=buffers)


def _uninterrupted(end: Callable[[], None]) -> None:
    """Calls a function that signals cannot interrupt. Ctrl-C then ends the process."""
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
        end()
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        end()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _not_sent(rank: int, text: bytes) -> _errors.RemoteError:
    return _errors.RemoteError(f"node {rank} could not send its value: {text.decode(errors='replace')}")


def _arrays() -> tuple[Any, ...]:
    """Returns the class of arrays of NumPy, if the program has imported NumPy."""
    numpy: Any = sys.modules.get("numpy")
    return () if numpy is None else (numpy.ndarray,)


def _writable(value: Any) -> memoryview | None:
    """Returns the bytes of a writable buffer without gaps and pointers, or None for other values."""
    try:
        view = memoryview(value)
        if view.readonly or not view.c_contiguous or _POINTERS.search(_NAMES.sub("", view.format)):
            return None
        return pickle.PickleBuffer(value).raw()  # casts buffers of any type
    except (TypeError, ValueError, BufferError):
        return None


def _type_of(value: Any) -> int | None:
    """Returns the number of the type that the numbers of an array or buffer have, or None for other values."""
    if isinstance(value, _arrays()):
        return _TYPES.get(value.dtype.kind, {}).get(value.itemsize) if value.dtype.isnative else None
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    kind = _KINDS.get(view.format.lstrip("@=<"))
    if kind is None or view.readonly or not view.c_contiguous:
        return None
    return _TYPES[kind].get(view.itemsize)


def _copy_of(value: Any, number: int) -> Any:
    """Returns a copy of an array or buffer, whose type _type_of() has told, in new memory without gaps."""
    if isinstance(value, _arrays()):
        return value.copy(order="C")
    if not isinstance(value, memoryview):
        return copy.copy(value)
    made = memoryview(bytearray(value))
    # cast() knows native formats only.
    native: Any = value.format if len(value.format) == 1 else _FORMATS[number]
    return made.cast(native) if value.ndim == 1 else made.cast(native, value.shape or ())


def _serve() -> None:
    _worker._thread.serves = True  # pylint: disable=protected-access
    _core.serve()


_job_of_process: Equals | None = None


def spmd(*, output: Any = None, timeout: float | None = None, **options: Any) -> Equals:
    """Makes a job of equals with the other processes that `farcall run -n N`, mpirun or srun has started.

    Every process runs the program, and calls this function once. A program that no launcher has started runs in two
    processes, or as the variable FARCALL_TARGETS says. `timeout` is the time limit of collectives in seconds, by
    default none. farcall.Job has the same other options. The end of the program ends the job on all processes together;
    if a process ends by an exception, all processes are ended.
    """
    global _job_of_process  # pylint: disable=global-statement
    if _job_of_process is not None:
        raise RuntimeError("this process has made its job of equals already")
    _job_of_process = Equals(output=output, timeout=timeout, **options)
    return _job_of_process


def _end_at_exit() -> None:
    if _job_of_process is None or _job_of_process.has_ended:
        return
    if getattr(sys, "last_type", None) is None:
        _job_of_process.end()
    else:
        _job_of_process.abandon()


atexit.register(_end_at_exit)
