# SPDX-License-Identifier: Apache-2.0
"""Thread that gets lines of targets and changes of nodes from farcall."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Time between two looks at signals.
_SLICE_SECONDS = 0.05

Output = Callable[[int, int, str], "Any"]
Change = Callable[[int, int, int, str], "Any"]


class _Start:
    """Start of a job in a thread, which a signal handler of the main thread may leave by an exception."""

    def __init__(self, options: dict[str, Any], events: Any, has_output: bool) -> None:
        self._given = options, False, events, has_output
        self._lock = threading.Lock()
        self._job: Any = None
        self._error: BaseException | None = None
        self._is_left = False

    def run(self) -> None:
        """Starts the job in this thread, and ends it if nobody waits any more."""
        try:
            job = _core.start_job(*self._given)
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
            return
        with self._lock:
            if not self._is_left:
                self._job = job
                return
        job.end()

    def wait(self) -> Any:
        """Returns the job, or raises the error of its start."""
        thread = threading.Thread(target=self.run, name="farcall-start", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_SLICE_SECONDS)  # a signal may have come to another thread
        except BaseException:
            with self._lock:
                self._is_left = True
            if self._job is not None:
                self._job.end()
            raise
        if self._error is not None:
            raise self._error
        return self._job


def start_job(options: dict[str, Any], events: Any, has_output: bool) -> Any:
    """Starts a job of this process as a host. Ctrl-C ends the wait for its targets."""
    if threading.current_thread() is threading.main_thread():
        return _Start(options, events, has_output).wait()
    return _core.start_job(options, False, events, has_output)


class Listener:
    """Thread that passes lines of targets and changes of nodes on to functions of Python."""

    def __init__(self, output: Output | None, change: Change) -> None:
        self.events = _core.Events()
        self.output = output
        self._change = change
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="farcall-events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while events := self.events.take():
            for kind, node, other, text in events:
                try:
                    self._pass_on(kind, node, other, text.decode("utf-8", "replace"))
                except BaseException as error:  # pylint: disable=broad-except
                    sys.excepthook(type(error), error, error.__traceback__)

    def _pass_on(self, kind: int, node: int, other: int, text: str) -> None:
        if kind != 0:
            self._change(kind, node, other, text)
        elif self.output is not None:
            self.output(node, other, text)

    def runs_here(self) -> bool:
        """True if the calling thread is the thread of the listener."""
        return self._thread is threading.current_thread()

    def prepare_end(self) -> None:
        """Says that this thread ends the job. If it is the thread of the listener, targets that print do not wait."""
        if self.runs_here():
            self.events.close()

    def end(self) -> None:
        """Ends the thread when it has passed everything on."""
        self.events.close()
        if self._thread is not None and not self.runs_here():
            self._thread.join()
