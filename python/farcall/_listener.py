"""Thread that gets lines of targets and changes of nodes from farcall."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from . import _core

Output = Callable[[int, int, str], Any]
Change = Callable[[int, int, int, str], Any]


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
                except Exception:  # pylint: disable=broad-except
                    sys.excepthook(*sys.exc_info())

    def _pass_on(self, kind: int, node: int, other: int, text: str) -> None:
        if kind != 0:
            self._change(kind, node, other, text)
        elif self.output is not None:
            self.output(node, other, text)

    def prepare_end(self) -> None:
        """Says that this thread ends the job. If it is the thread of the listener, targets that print do not wait."""
        if self._thread is threading.current_thread():
            self.events.close()

    def end(self) -> None:
        """Ends the thread when it has passed everything on."""
        self.events.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
