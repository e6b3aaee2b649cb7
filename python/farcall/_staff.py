# SPDX-License-Identifier: Apache-2.0
"""Workers of a pool: how they are started, watched, replaced and ended."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections import deque
from concurrent.futures import BrokenExecutor

from . import _core, _functions, _output, _processes
from ._calls import Call, Outcomes, Settings, Worker, rss_of, settle
from ._errors import NodeFailed, StartFailed
from ._future import Future
from ._placed import PlacedCalls, by_key, keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Time for which calls wait for the reason of the end of their worker. A system that writes a core file may need it.
_REPORT_SECONDS = 10.0
_MOST_ATTEMPTS = 3


class Staff(PlacedCalls):
    """Workers that are forked from a zygote, and what a pool knows of them."""

    def __init__(self, settings: Settings) -> None:
        self._lock = threading.RLock()
        self._settings = settings
        self._zygote = _processes.zygote(settings.preload, settings.threads)
        self.key = next(keys)
        by_key[self.key] = self
        self._size = settings.size
        self._pending: deque[Call] = deque()
        self._own: dict[int, deque[Call]] = {}  # calls for given workers, by the workers' places
        self._calls: dict[int, Call] = {}
        self._workers: dict[int, Worker] = {}
        self._pids: dict[int, int] = {}  # process IDs of all workers that the pool has had
        self._untracked: list[Worker] = []  # workers that do not note which calls they have begun
        self._dying: list[Worker] = []  # workers whose calls wait for the reason of their end
        self._deaths_in_a_row = 0
        self._is_shut = False
        self._is_killed = False  # true if all workers were killed, so that no call is sent again
        self._broken: BaseException | None = None
        self.job = self._zygote.job()
        self.job.set_explain(self._explained_now)
        self._watched: dict[int, int] = {}  # nodes by the descriptors of their processes
        self._poll = select.poll()
        self.functions = _functions.Functions(self.job)
        self._initial = None
        if settings.initializer is not None:
            self._initial = self.functions.encode(settings.initializer, settings.initargs, {})

    # Members of the pool.

    express: _core.Express

    def _dispatch(self) -> Outcomes:
        raise NotImplementedError

    def _send(self, call: Call, worker: Worker, outcomes: Outcomes) -> None:
        raise NotImplementedError

    def _count(self, worker: Worker) -> int:
        raise NotImplementedError

    def _is_done(self) -> bool:
        raise NotImplementedError

    def need_thread(self) -> None:
        """Lets the thread of the pool take results until all calls have ended."""
        raise NotImplementedError

    # ---- start

    def _start(self, count: int) -> Outcomes:
        """Starts workers. Call it with the lock held, and settle() the result without it."""
        outcomes: Outcomes = []
        self._zygote = _processes.zygote(self._settings.preload, self._settings.threads)
        places = self._free_places()
        forked = _output.fork(self._settings.output, self._zygote, count, self._settings.threads)
        for (pid, descriptor, pipes), index in zip(forked, places):
            node = self._zygote.add_to(self.job, descriptor)
            if pipes is not None:
                self._settings.output.attach(pipes, node)
            worker = self._workers[node] = Worker(node, pid, index)
            self._pids[node] = pid
            self._watch(worker)
            self._untracked.append(worker)
            if self._initial is None:
                self._set_ready(worker, True)
            else:
                self._initialize(worker, outcomes)
        return outcomes + self._dispatch()

    def _track(self) -> None:
        """Lets new workers note which calls they have begun. Waits for them, so it is not a part of their start."""
        workers = list(self._untracked)
        self._untracked.clear()
        for worker in workers:
            worker.is_tracked = self.job.track(worker.node)
            worker.track_attempts += 1
            # A worker that never replies gets one call at a time.
            if not worker.is_tracked and worker.track_attempts < _MOST_ATTEMPTS:
                self._untracked.append(worker)

    def _set_ready(self, worker: Worker, is_ready: bool) -> bool:
        """Says whether the worker gets calls. Returns True if it has got one."""
        worker.is_ready = is_ready
        return self.job.choose(worker.node, is_ready)

    def _watch(self, worker: Worker) -> None:
        """Lets the thread notice the end of an idle worker."""
        try:
            worker.watched = self._zygote.watch(worker.pid)
        except OSError:
            return  # the process has ended, or the system is old; the next call notices the end
        self._poll.register(worker.watched, select.POLLIN)
        self._watched[worker.watched] = worker.node

    def _unwatch(self, worker: Worker) -> None:
        if self._watched.pop(worker.watched, None) is not None:
            self._poll.unregister(worker.watched)
            os.close(worker.watched)

    def _initialize(self, worker: Worker, outcomes: Outcomes) -> None:
        assert self._initial is not None
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def ready(done: Any) -> None:
            error = done.exception()
            if error is not None and not isinstance(error, NodeFailed):
                self._break(error)
                return
            with self._lock:
                if error is None:
                    worker.begun = 0
                    self._set_ready(worker, True)
                more = self._dispatch()
            settle(more)

        future.add_done_callback(ready)
        self._send(Call(future, *self._initial, "the initializer"), worker, outcomes)
        worker.begun = 0
        self.need_thread()

    # ---- replacement

    def _may_lack_workers(self) -> bool:
        """True if the pool goes on without a worker that cannot be started again, for instance on a server."""
        return not isinstance(self._settings.preload, tuple)

    def _review(self, worker: Worker) -> None:
        """Gives a worker no more calls, if it has run as many as it may, or uses too much memory."""
        most_tasks, most_rss = self._settings.most_tasks, self._settings.most_rss
        if (most_tasks is not None and worker.begun >= most_tasks
                or most_rss is not None and not worker.calls and rss_of(worker.pid) > most_rss):
            # The end of a worker is the end of its actors.
            worker.must_go = not worker.actors
            self._set_ready(worker, not worker.must_go)

    def _retire(self) -> None:
        """Replaces workers that get no more calls."""
        with self._lock:
            old = [w for w in self._workers.values() if w.must_go and not w.calls and not w.aside and not w.has_failed]
            if not old or self._is_done():
                return
            for worker in old:
                del self._workers[worker.node]
                self._unwatch(worker)
            outcomes = self._start(len(old))
        settle(outcomes)
        for worker in old:
            try:
                self.job.remove(worker.node)
            except Exception:  # pylint: disable=broad-except
                pass  # the worker has ended by itself
            self.job.forget(worker.node)

    def _replace(self, node: int) -> None:
        """Starts a worker in place of a worker that has failed."""
        with self._lock:
            worker = self._workers.get(node)
            if worker is None or worker.has_failed:
                return
            has_served = self._set_ready(worker, False)
            worker.has_failed = True
            self._forget_references(worker)
            self._forget_if_failed(worker)
            self._deaths_in_a_row = 0 if has_served else self._deaths_in_a_row + 1
            if self._deaths_in_a_row > 3 * self._settings.size:
                raise StartFailed(f"workers end as soon as they have started; the last one (pid {worker.pid}) "
                                  f"{self._zygote.end_of(worker.pid, 0.5)}")
            # Calls that this worker has not begun, and whose end is noticed later, need another worker.
            has_calls = bool(self._pending or self._own or self._count(worker))
            is_unused = self._is_shut and not has_calls
            if self._broken is not None or self._is_killed or is_unused:
                return
            outcomes = self._start(1)
        settle(outcomes)

    def _forget_if_failed(self, worker: Worker) -> None:
        is_unused = worker.has_failed and not self._count(worker) and not worker.aside
        if is_unused and self._workers.pop(worker.node, None) is not None:
            self._unwatch(worker)
            self.job.forget(worker.node)

    def _break(self, cause: BaseException) -> None:
        """Fails all calls, after workers could not be started or initialised."""
        error = BrokenExecutor(f"a worker could not be initialised: {type(cause).__name__}: {cause}")
        error.__cause__ = cause
        with self._lock:
            if self._broken is None:
                self._broken = error
            self.express.is_open = False
            outcomes: Outcomes = [(call.future, 1, error) for call in self._all_pending() if call.may_run()]
            self._pending.clear()
            self._own.clear()
        self.job.refuse(str(error))
        self.kill()
        settle(outcomes)
        self.need_thread()

    # ---- reasons of ends

    def _explained(self, error: Exception, worker: Worker, call: Call, end: str) -> NodeFailed:
        """Returns the error with the reason of the worker's end."""
        return _node_failed(error, worker.node, worker.pid, end, call.name())

    def _explained_now(self, error: BaseException, node: int, name: str) -> BaseException:
        """Returns the error with the reason of the worker's end, for which this function waits."""
        pid = self._pids.get(node)
        if pid is None:
            return error
        return _node_failed(error, node, pid, self._zygote.end_of(pid, _REPORT_SECONDS), name)

    def _explain_later(self, call: Call, worker: Worker, error: Exception) -> None:
        """Lets the call wait for the reason of the end of its worker."""
        if not worker.failed:
            worker.give_up_at = time.monotonic() + _REPORT_SECONDS
            self._dying.append(worker)
        worker.failed.append((call, error))

    def _explain(self) -> Outcomes:
        """Returns the outcomes of failed calls for which the end of the worker is known."""
        outcomes: Outcomes = []
        for worker in list(self._dying):
            end = self._zygote.known_end_of(worker.pid)
            if end is None and time.monotonic() < worker.give_up_at:
                continue
            self._dying.remove(worker)
            if end is None:
                self._zygote.kill([worker.pid])
            text = end or "cannot be reached any more"
            outcomes += [(call.future, 1, self._explained(error, worker, call, text)) for call, error in worker.failed]
            worker.failed.clear()  # more calls may follow, and must wait for the reason again
        return outcomes

    def explain_lost(self, node: int, error: NodeFailed) -> NodeFailed:
        """Returns the error of a call of an actor, with the reason of its worker's end."""
        pid = self._pids.get(node)
        if pid is None or isinstance(error.__cause__, NodeFailed):
            return error
        end = self._zygote.end_of(pid, _REPORT_SECONDS)
        explained = NodeFailed(f"node {node} (pid {pid}) {end}; its actors are lost, other workers and calls go on")
        explained.node = node
        explained.__cause__ = error
        return explained

    # ---- ends

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to all workers, by default one that kills them, so that their calls fail."""
        with self._lock:
            self._is_killed = True
            self._zygote.kill([worker.pid for worker in self._workers.values()], number)
            outcomes = self._stop_pending()
        settle(outcomes)

    def _stop_pending(self) -> Outcomes:
        """Ends the calls that no worker has, after all workers were killed."""
        broken = self._broken
        outcomes: Outcomes = [call.stopped() if broken is None else (call.future, 1, broken)
                              for call in self._all_pending()]
        self._pending.clear()
        self._own.clear()
        return outcomes

    def _close_output(self) -> None:
        """Passes on what workers have printed, after the end of the job."""
        for receiver in self._receivers():
            receiver.close()

    def _receivers(self) -> list[Any]:
        """Returns what passes on the lines that workers print, in threads of their own."""
        settings = self._settings
        sources = [] if isinstance(settings.preload, tuple) else [settings.preload]
        return sources if settings.output is None else [settings.output, *sources]

    def pids(self) -> dict[int, int]:
        """Returns the process IDs of the workers by their nodes."""
        with self._lock:
            return {worker.node: worker.pid for worker in self._workers.values()}


def _node_failed(error: BaseException, node: int, pid: int, end: str, name: str) -> NodeFailed:
    explained = NodeFailed(f"node {node} (pid {pid}) {end} while it ran {name}; other workers and calls go on")
    explained.node = node
    explained.__cause__ = error
    return explained
