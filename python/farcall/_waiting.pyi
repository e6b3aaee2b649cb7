# SPDX-License-Identifier: Apache-2.0
"""Types of functions that wait for several futures, which keep the class of the futures."""

import concurrent.futures
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

F = TypeVar("F", bound=concurrent.futures.Future[Any])

class DoneAndNotDone(NamedTuple, Generic[F]):
    done: set[F]
    not_done: set[F]

def as_completed(fs: Iterable[F], timeout: float | None = None) -> Iterator[F]: ...
def wait(fs: Iterable[F], timeout: float | None = None, return_when: str = "ALL_COMPLETED") -> DoneAndNotDone[F]: ...
