# SPDX-License-Identifier: Apache-2.0
"""Workers that farcall starts from URLs, on this machine and on others, in place of forked workers."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import warnings

from . import _core, _worker
from ._errors import StartFailed, UnknownFunction
from ._functions import Functions
from ._job import _output_of, _set_program, options_of, python_command
from ._listener import Listener, start_job
from ._serve import versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FAILED = 2
_WHO = re.compile(r"^node \d+ \([^)]*\):? (process \d+ there )?")


# Launchers that have started all processes, and variables that they set for each process.
LAUNCHERS = ("mpirun", "srun")
_RANKS = ("PMIX_RANK", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def _serve_if_launched(launcher: str) -> None:
    """On all processes of a launcher but the first, serves calls, and then ends the process by SystemExit."""
    if not any(name in os.environ for name in _RANKS):
        raise ValueError(f"Executor({launcher!r}) is for programs that {launcher} has started, as in "
                         f"`{launcher} -n 4 python program.py`")
    if _worker.main(-1):
        sys.exit(0)


class Source:
    """Starts the workers of a pool from URLs, as a Zygote forks them. Several threads may use it.

    The workers have joined the job before the pool gets them.
    """

    def __init__(self, urls: str, preload: tuple[str, ...], threads: int | None, output: Any,
                 options: dict[str, Any]) -> None:
        made = options_of(options)
        if "program" in made or "arguments" in made:
            raise TypeError("workers run Python, so that an Executor has no options program and arguments")
        if urls in LAUNCHERS:
            _serve_if_launched(urls)
        else:
            made["targets"] = urls
            _set_program(made, urls)
            if made.get("program") != sys.executable:
                raise ValueError(f"{urls!r} names a program, and workers run Python; use farcall.Job for programs")
            made["arguments"] = python_command(preload, threads or 0)
        self._ends: dict[int, str] = {}  # how nodes have ended
        self._has_ended = threading.Condition()
        self._listener = Listener(_output_of(output, made), self._note)
        self._listener.start()
        try:
            self._job = start_job(made, self._listener.events, self._listener.output is not None)
        except BaseException:
            self._listener.end()
            raise
        try:
            self._check_versions()
        except BaseException:
            self._job.end()
            self._listener.end()
            raise
        self._fresh = list(range(1, _core.job_size(self._job)))
        self._nodes: dict[int, int] = {}  # nodes by the process IDs of their workers, also of workers that have ended
        self._current: set[int] = set()  # nodes that run, or that were not restarted yet
        self._lock = threading.Lock()
        self.count = len(self._fresh)

    def _note(self, kind: int, node: int, _: int, why: str) -> None:
        if kind == _FAILED:
            with self._has_ended:
                self._ends[node] = _WHO.sub("", why)
                self._has_ended.notify_all()

    def _check_versions(self) -> None:
        """Raises StartFailed if a worker does not run this version of Python and of the package."""
        ask = Functions(self._job).frozen(versions)
        own = versions()
        for node in range(1, _core.job_size(self._job)):
            self._job.meet(node)
            self._job.choose(node, True)
            try:
                theirs = ask()
            except UnknownFunction as error:
                raise StartFailed(f"node {node} runs no Python functions; `python -m farcall serve` starts servers of "
                                  "workers") from error
            self._job.choose(node, False)
            if theirs != own:
                host = _core.describe_node(self._job, node)["host"]
                raise StartFailed(f"node {node} on {host} has Python {theirs[0]} with farcall {theirs[1]}, and this "
                                  f"program has Python {own[0]} with farcall {own[1]}; pickles need the same versions")

    # ---- as a Zygote

    def job(self) -> Any:
        """Returns the job of the workers."""
        return self._job

    def is_usable(self) -> bool:
        """True, because farcall starts workers without another process."""
        return True

    def fork(self, count: int, _: int) -> list[tuple[int, int]]:
        """Returns process ID and node of workers: first the workers of the job's start, and then restarted ones.

        If a worker cannot be restarted, for instance because its server has ended, the other workers go on without it.
        """
        workers = []
        for _ in range(count):
            try:
                node = self._next()
            except StartFailed as error:
                if not any(_core.is_alive(self._job, other) for other in self._current):
                    raise
                warnings.warn(f"farcall goes on without a worker that could not be restarted: {error}", RuntimeWarning)
                continue
            pid = int(_core.describe_node(self._job, node)["pid"])
            self._nodes[pid] = node
            self._current.add(node)
            workers.append((pid, node))
        return workers

    def _next(self) -> int:
        with self._lock:
            if self._fresh:
                return self._fresh.pop(0)
            for node in sorted(self._current):
                if not _core.is_alive(self._job, node):
                    self._current.remove(node)
                    return _core.restart_node(self._job, node)
        raise StartFailed("no worker has ended that could be replaced")

    def add_to(self, job: Any, node: int) -> int:
        """Lets the job send calls to a worker of fork(), and returns its node."""
        job.meet(node)
        return node

    def watch(self, pid: int) -> int:
        """Raises OSError, because the job notices the end of its workers."""
        raise OSError(f"process {pid} may be on another machine")

    def end_of(self, pid: int, seconds: float = 0.5) -> str:
        """Says how a worker has ended, as in "exited with status 3". Waits for its end for a short time."""
        return self.known_end_of(pid, seconds) or "cannot be reached any more"

    def known_end_of(self, pid: int, seconds: float = 0) -> str | None:
        """Says how a worker has ended, or returns None if that is not known after this time."""
        node = self._nodes.get(pid, -1)
        end = time.monotonic() + seconds
        with self._has_ended:
            while node not in self._ends and (left := end - time.monotonic()) > 0:
                self._has_ended.wait(left)
            return self._ends.get(node)

    def kill(self, pids: list[int], number: int = signal.SIGKILL) -> None:
        """Ends workers of this machine by a signal, and other workers within the stop timeout of the job."""
        for pid in pids:
            node = self._nodes.get(pid)
            if node is None:
                continue
            try:
                is_near = _core.describe_node(self._job, node)["transport"] == "shm"
            except Exception:  # pylint: disable=broad-except
                continue  # the job has ended, and its workers with it
            if is_near:
                _signal(pid, number)
            else:
                threading.Thread(target=_remove, args=(self._job, node), name="farcall-remove", daemon=True).start()

    def runs_here(self) -> bool:
        """True if the calling thread passes on what workers print."""
        return self._listener.runs_here()

    def close(self) -> None:
        """Passes on what workers have printed, after the end of the job."""
        self._listener.end()


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _remove(job: Any, node: int) -> None:
    try:
        job.remove(node)
    except Exception:  # pylint: disable=broad-except
        pass  # the worker has ended by itself
