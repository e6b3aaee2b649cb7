"""Results of Executor.map(), which reads its arguments a little ahead, in chunks of a suitable size."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from . import _errors
from ._future import Future

# Chunks of map() take about this time on a worker.
_CHUNK_SECONDS = 0.001
_MOST_IN_A_CHUNK = 8192
_GROWTH = 16
_CHUNKS_PER_WORKER = 4


class Map:
    """State of a map()."""

    def __init__(self, pool: Any, function: Callable[..., Any], iterables: tuple[Iterable[Any], ...], workers: int,
                 chunksize: int | None, buffersize: int | None, end: float | None) -> None:
        self._pool = pool
        self._function = function
        self._is_flat = len(iterables) == 1
        self._rows: Iterator[Any] = iter(iterables[0]) if self._is_flat else zip(*iterables)
        self._is_adaptive = chunksize is None
        self._size = chunksize or 1
        self._most_ahead = buffersize
        self._most_chunks = _CHUNKS_PER_WORKER * max(workers, 1)
        self._end = end
        self._ahead = 0
        self._chunks: deque[tuple[Future[Any], int]] = deque()
        self._is_exhausted = False
        self._fill()

    def _fill(self) -> None:
        while not self._is_exhausted and self._may_send():
            size = self._size
            if self._most_ahead is not None:
                size = min(size, self._most_ahead - self._ahead)
            chunk = list(islice(self._rows, size))
            if not chunk:
                self._is_exhausted = True
                break
            self._chunks.append((self._pool.submit_chunk(self._function, chunk, self._is_flat), len(chunk)))
            self._ahead += len(chunk)

    def _may_send(self) -> bool:
        if self._most_ahead is not None:
            return self._ahead < self._most_ahead
        return not self._is_adaptive or len(self._chunks) < self._most_chunks

    def _adapt(self, seconds: float, count: int) -> None:
        if self._is_adaptive and count == self._size:
            wanted = int(_CHUNK_SECONDS * count / max(seconds, 1e-9))
            self._size = max(1, min(wanted, _GROWTH * self._size, _MOST_IN_A_CHUNK))

    def results(self) -> Generator[Any, None, None]:
        """Yields the results in their order."""
        try:
            while self._chunks:
                future, count = self._chunks.popleft()
                left = None if self._end is None else self._end - time.monotonic()
                results, description, seconds = future.result(left)
                node = future.node
                del future
                self._ahead -= count
                self._adapt(seconds, count)
                if description is None:
                    self._fill()
                results.reverse()
                while results:
                    yield results.pop()
                if description is not None:
                    raise _errors.of_remote(description, node or 0)
        finally:
            while self._chunks:
                self._chunks.popleft()[0].cancel()
