# SPDX-License-Identifier: Apache-2.0
"""Results of Executor.map(), which reads its arguments a little ahead, in chunks of a suitable size."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice

from . import _core, _errors
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Chunks of map() take about this time on a worker.
_CHUNK_SECONDS = 0.001
_MOST_IN_A_CHUNK = 8192
_GROWTH = 16
_CHUNKS_PER_WORKER = 4
_numbers = count()


class Map:
    """State of a map(), whose results come in the order of the rows.

    `rows` gives tuples of arguments, or single arguments if `is_flat`.
    """

    def __init__(self, pool: Any, function: Callable[..., Any], rows: Iterator[Any], is_flat: bool, workers: int,
                 chunksize: int | None, buffersize: int | None, end: float | None,
                 seconds: float | None = None) -> None:
        self._pool = pool
        self._seconds = None if seconds is None else seconds * (chunksize or 1)
        self._function = function
        self._is_flat = is_flat
        self._rows = rows
        self._is_adaptive = chunksize is None
        self._size = chunksize or 1
        self._most_ahead = buffersize
        self._most_chunks = _CHUNKS_PER_WORKER * max(workers, 1)
        self._end = end
        self._ahead = 0
        self._chunks: deque[tuple[Future[Any], int]] = deque()
        self._is_exhausted = False
        self._number = next(_numbers)
        pool.begin_map(self._number)
        self._fill()

    def _fill(self) -> None:
        while not self._is_exhausted and self._may_send():
            size = self._size
            if self._most_ahead is not None:
                size = min(size, self._most_ahead - self._ahead)
            chunk = list(islice(self._rows, size))
            if not chunk:
                self._is_exhausted = True
                self._pool.end_map(self._number)
                break
            # Chunks of short calls are sent at once, so that workers need not wait for the next one.
            least = _CHUNKS_PER_WORKER if self._is_adaptive and self._size > 1 else 1
            future = self._pool.submit_chunk(self._function, chunk, self._is_flat, self._seconds, least)
            self._add(future, len(chunk))
            self._ahead += len(chunk)

    def _may_send(self) -> bool:
        if self._most_ahead is not None:
            return self._ahead < self._most_ahead
        return not self._is_adaptive or len(self._chunks) < self._most_chunks

    def _adapt(self, seconds: float, length: int) -> None:
        if self._is_adaptive and length == self._size:
            wanted = int(_CHUNK_SECONDS * length / max(seconds, 1e-9))
            self._size = max(1, min(wanted, _GROWTH * self._size, _MOST_IN_A_CHUNK))

    def results(self) -> _core.Results[Any]:
        """Returns an iterator over the results in their order, with a method close()."""
        return _core.Results(self.lists())

    def _add(self, future: Future[Any], length: int) -> None:
        self._chunks.append((future, length))

    def next_chunk(self) -> tuple[Future[Any], int] | None:
        """Returns the future of the next rows, and their number; or None if there are no more."""
        return self._chunks.popleft() if self._chunks else None

    def _left(self) -> float | None:
        """Returns the time that is left for the results, or None without a time limit."""
        return None if self._end is None else self._end - time.monotonic()

    def take(self, length: int, outcome: tuple[list[Any], Any, float]) -> tuple[list[Any], Any]:
        """Sends more rows after the outcome of some. Returns their results, and the description of an exception."""
        results, description, seconds = outcome
        self._ahead -= length
        self._adapt(seconds, length)
        if description is None:
            self._fill()
        return results, description

    def lists(self) -> Iterator[list[Any] | BaseException]:
        """Yields lists of results in their order, and an exception of the function in its place."""
        try:
            while (chunk := self.next_chunk()) is not None:
                future, length = chunk
                results, description = self.take(length, future.result(self._left()))
                node = future.node
                del future, chunk
                yield results
                if description is not None:
                    yield _errors.of_remote(description, node or 0)
                    return
        finally:
            self.close()

    def close(self) -> None:
        """Reads no more rows, and drops the results that were not read."""
        self._is_exhausted = True
        self._cancel()
        self._pool.end_map(self._number)

    def _cancel(self) -> None:
        while self._chunks:
            self._chunks.popleft()[0].cancel()

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            self.close()
