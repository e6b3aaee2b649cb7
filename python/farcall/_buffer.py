# SPDX-License-Identifier: Apache-2.0
"""Memory on nodes of every kind, and plain copies to and from it."""

from __future__ import annotations

import sys
import weakref

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._job import Job, Node


def _release(job: Job, span: bytes) -> None:
    if not job.has_ended:
        try:
            _core.release_memory(job.core, span)
        except Exception:  # pylint: disable=broad-except
            pass  # the node has failed, and its memory with it


class Buffer:
    """Memory of a node, which node.allocate() makes. It is freed when the object is dropped, or by release().

    A Buffer is passed to functions in C on its node as a parameter p. `address` is its address there, `node` the node,
    and len() the number of bytes. Copies wait, at most for `timeout` seconds.
    """

    def __init__(self, node: Node, size: int, limit: int) -> None:
        if size > sys.maxsize:
            raise OverflowError(f"size must be at most {sys.maxsize}, and not {size}")
        self.node = node
        self._size = size
        self._span, self._address = _core.allocate(node.job.core, node.id, size, limit)
        self._finalizer = weakref.finalize(self, _release, node.job, self._span)
        self._finalizer.atexit = False

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<farcall.Buffer of {self._size} bytes on node {self.node.id}>"

    @property
    def address(self) -> int:
        """Address of the memory on its node."""
        self._check()
        return self._address

    def _check(self) -> bytes:
        if not self._finalizer.alive:
            raise ValueError("the buffer was released")
        return self._span

    def _check_end(self, end: int) -> None:
        """Raises ValueError if a copy up to this byte does not fit."""
        if end > self._size:
            raise ValueError(f"the copy would end at byte {end}, and the buffer has {self._size} bytes")

    def put(self, data: Any, offset: int = 0, *, timeout: float | None = None) -> None:
        """Copies the bytes of an object with a buffer into the memory, from `offset` on."""
        from ._native import timeout_ns

        self._check_end(_whole(offset) + memoryview(data).nbytes)
        _core.put(self.node.job.core, self._check(), offset, data, timeout_ns(timeout))

    def get(self, into: Any = None, offset: int = 0, *, timeout: float | None = None) -> Any:
        """Fills a writable buffer with the bytes from `offset` on, and returns it. The default is a new bytearray."""
        from ._native import timeout_ns

        if into is None:
            into = bytearray(max(self._size - _whole(offset), 0))
        self._check_end(_whole(offset) + memoryview(into).nbytes)
        _core.get(self.node.job.core, self._check(), offset, into, timeout_ns(timeout))
        return into

    def copy_to(self, other: Buffer, *, timeout: float | None = None) -> None:
        """Copies all bytes to the beginning of another buffer of the job, directly from node to node."""
        from ._native import timeout_ns

        if not isinstance(other, Buffer) or other.node.job is not self.node.job:
            raise TypeError("copy_to() takes a farcall.Buffer of the same job")
        other._check_end(self._size)
        _core.copy(self.node.job.core, self._check(), other._check(), timeout_ns(timeout))

    def release(self) -> None:
        """Frees the memory. Later uses raise ValueError."""
        self._finalizer()


def _whole(offset: int) -> int:
    if offset < 0:
        raise ValueError("offset must not be negative")
    return offset
