# SPDX-License-Identifier: Apache-2.0
"""Tests of calls that are stopped, and of time limits."""

import concurrent.futures
import os
import signal
import tempfile
import threading
import time

import farcall
import support
import tasks


class Stops(support.TestCase):
    """Future.stop()."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "pid")

    def started(self, executor, function):
        """Starts a call, waits until it runs, and returns its future and the process ID of its worker."""
        future = executor.submit(function, self.path)
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path)))
        with open(self.path, encoding="ascii") as file:
            return future, int(file.read())

    def assert_cancelled(self, future):
        """Checks that the call ends as cancelled."""
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result(support.GUARD_SECONDS / 2)
        self.assertTrue(future.cancelled())

    def test_call_that_has_not_begun_is_cancelled(self):
        executor = self.executor(1)
        first, _ = self.started(executor, tasks.note_and_sleep)
        second = executor.submit(tasks.same, 1)
        self.assertTrue(second.stop())
        self.assert_cancelled(second)
        self.assertFalse(first.done())
        self.assertTrue(first.stop())
        self.assert_cancelled(first)

    def test_running_call_is_interrupted_and_its_worker_goes_on(self):
        executor = self.executor(1)
        for function in (tasks.note_and_sleep, tasks.note_and_lock, tasks.note_and_spin):
            future, pid = self.started(executor, function)
            os.remove(self.path)
            self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
            self.assert_cancelled(future)
            self.assertEqual(executor.submit(os.getpid).result(), pid)

    def test_task_goes_on_after_an_unstoppable_call(self):
        executor = self.executor(1)
        self.assertEqual(executor.submit(tasks.give_up_and_call, executor, self.path).result(support.GUARD_SECONDS / 2),
                         [4.0, True])

    def test_stubborn_call_is_killed_after_the_grace(self):
        executor = self.executor(1)
        future, pid = self.started(executor, tasks.sleep_stubbornly)
        waiting = [executor.submit(tasks.same, number) for number in range(10)]
        self.assertTrue(future.stop(grace=0.1))
        self.assert_cancelled(future)
        self.assertEqual([each.result() for each in waiting], list(range(10)))
        self.assertTrue(support.is_gone(pid))

    def test_extension_with_the_gil_is_killed_after_the_grace(self):
        executor = self.executor(1)
        worker = None
        pid = 0
        # A stop that arrives before the function holds the GIL interrupts it, and its worker goes on.
        while worker in (None, pid):
            future, pid = self.started(executor, tasks.note_and_hold_the_gil)
            os.remove(self.path)
            begin = time.monotonic()
            self.assertTrue(future.stop(grace=0.2))
            self.assert_cancelled(future)
            self.assertLess(time.monotonic() - begin, support.GUARD_SECONDS / 4)
            worker = executor.submit(os.getpid).result()
        self.assertNotEqual(worker, os.getpid())
        self.assertTrue(support.wait_until(lambda: support.is_gone(pid)))

    def test_late_extension_with_the_gil_is_killed(self):
        executor = self.executor(1)
        with self.assertRaises(farcall.Timeout):
            executor.with_timeout(0.2).submit(tasks.note_and_hold_the_gil, self.path).result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_calls_behind_a_stopped_call_are_not_lost(self):
        executor = self.executor(1)
        # After many short calls, workers get several calls at a time.
        farcall.wait([executor.submit(tasks.same, number) for number in range(3000)])
        stubborn = executor.submit(tasks.sleep_stubbornly, self.path)
        waiting = [executor.submit(tasks.same, number) for number in range(40)]
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path)))
        self.assertTrue(stubborn.stop(grace=0))
        self.assert_cancelled(stubborn)
        self.assertEqual([each.result() for each in waiting], list(range(40)))

    def test_stopped_calls_that_have_not_begun_never_run(self):
        executor = self.executor(1)
        farcall.wait([executor.submit(tasks.same, number) for number in range(3000)])
        first = executor.submit(tasks.note_and_sleep, self.path)
        second = executor.submit(tasks.note, self.path + ".second")
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path)))
        self.assertTrue(second.stop(grace=support.GUARD_SECONDS))
        self.assert_cancelled(second)
        first.stop()
        self.assert_cancelled(first)
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)
        self.assertFalse(os.path.exists(self.path + ".second"))

    def test_function_may_clean_up_and_return(self):
        executor = self.executor(1)
        future, _ = self.started(executor, tasks.note_and_clean_up)
        self.assertTrue(future.stop())
        self.assertEqual(future.result(), "cleaned up after Stopped")

    def test_ended_call_cannot_be_stopped(self):
        future = self.executor(1).submit(tasks.same, 1)
        self.assertEqual(future.result(), 1)
        self.assertFalse(future.stop())
        self.assertEqual(future.result(), 1)
        self.assertFalse(farcall.Executor(0).submit(tasks.same, 1).stop())

    def test_callbacks_and_waiting_threads_notice_a_stop(self):
        executor = self.executor(1)
        future, _ = self.started(executor, tasks.note_and_sleep)
        called = threading.Event()
        future.add_done_callback(lambda _: called.set())
        stopper = threading.Timer(0.05, future.stop)
        stopper.start()
        done, _ = farcall.wait([future], support.GUARD_SECONDS / 2)
        self.assertEqual(done, {future})
        self.assertTrue(called.wait(support.GUARD_SECONDS / 2))
        stopper.join()

    def test_thousands_of_stops_hit_only_their_calls(self):
        executor = self.executor(2)
        wrong = []
        for round_number in range(300):
            stopped = executor.submit(time.sleep, 0.0005 * (round_number % 3))
            others = [executor.submit(tasks.same, number) for number in range(4)]
            stopped.stop(support.GUARD_SECONDS)
            wrong += [each for each in (other.result() for other in others) if each not in range(4)]
            farcall.wait([stopped])
        self.assertEqual(wrong, [])

    def test_task_stops_its_own_tasks(self):
        executor = self.executor(2)
        self.assertEqual(executor.submit(tasks.nested_stop, executor, self.path).result(), (True, True))

    def test_stop_before_the_worker_is_ready_is_not_lost(self):
        # The module delays the worker between its entry to the job and the first call.
        executor = self.executor(1, preload=["slow_start"], retries=1)
        future = executor.submit(tasks.note_and_wait, self.path)
        # Without Future.stop(), which also asks the worker to return the call.
        self.assertTrue(executor._pool.job.stop(future.node, future.call.tag))
        self.assert_cancelled(future)
        self.assertFalse(os.path.exists(self.path))

    def test_stop_reaches_calls_beside_the_main_thread(self):
        executor = self.executor(2)
        actor = executor.create(tasks.Waits, node=1)
        # A helper thread runs the second method while the first one waits for a task of the other worker.
        first = actor.wait_for_a_task.submit(executor, self.path + ".begun", self.path + ".go")
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path + ".begun")))
        second = actor.wait_for_ever.submit(self.path)
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path)))
        tasks.note(self.path + ".go")
        self.assertEqual(first.result(), 1)
        # The main thread, which runs handlers of signals, now waits for calls.
        self.assertTrue(second.stop(grace=support.GUARD_SECONDS))
        self.assert_cancelled(second)
        # A helper thread that goes on with the call would be missing when tasks wait for tasks of their worker.
        self.assertEqual(executor.submit(tasks.count_down, executor, 20).result(support.GUARD_SECONDS / 2), 20)

    def test_stop_during_a_wait_is_not_lost(self):
        executor = self.executor(2)
        actor = executor.create(tasks.Waits, node=1)
        first = actor.wait_for_a_task.submit(executor, self.path + ".first", self.path + ".go")
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path + ".first")))
        second = actor.wait_for_a_function.submit(executor, self.path)  # in a helper thread
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path + ".begun")))
        self.assertTrue(second.stop(grace=support.GUARD_SECONDS))
        time.sleep(0.2)  # so that the stop comes during the wait; without it, the test finds less
        tasks.note(self.path)
        self.assert_cancelled(second)
        tasks.note(self.path + ".go")
        self.assertEqual(first.result(), 1)

        # The helper thread ends, because the worker has counted the end of the wait.
        def all_run_in_the_main_thread():
            return {executor.submit_to(1, tasks.thread_name).result() for _ in range(20)} == {"MainThread"}

        self.assertTrue(support.wait_until(all_run_in_the_main_thread))

    def test_stop_is_sent_again_if_the_lane_is_full(self):
        executor = self.executor(1)
        future, pid = self.started(executor, tasks.note_and_wait)
        function = executor._pool.frozen(len)
        message = function.encode((bytes(60_000),), {})
        support.stop(pid)
        try:
            sent = 0
            while executor._pool.job.send(function, message, future.node, (1 << 30) + sent, False):
                sent += 1
            self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assert_cancelled(future)

    def test_stop_in_a_finalizer_is_not_lost(self):
        future, _ = self.started(self.executor(1), tasks.drop_and_wait)
        self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
        self.assert_cancelled(future)

    def test_all_of_many_waiting_calls_are_stopped(self):
        actor = self.executor(1).create(tasks.Waits, threads=1)
        first = actor.wait_for_ever.submit(self.path)
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path)))
        waiting = [actor.wait_for_ever.submit(f"{self.path}.{number}") for number in range(1000)]
        for future in waiting:
            self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
        self.assertTrue(first.stop(grace=support.GUARD_SECONDS))
        for future in [first, *waiting]:
            self.assert_cancelled(future)
        self.assertFalse(os.path.exists(f"{self.path}.0"))

    def test_signal_before_a_system_call_is_not_lost(self):
        executor = self.executor(1)
        future, pid = self.started(executor, tasks.note_and_sleep_twice)
        self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
        self.assert_cancelled(future)
        self.assertEqual(executor.submit(os.getpid).result(), pid)

    def test_wrong_grace_is_refused(self):
        future = self.executor(1).submit(tasks.same, 1)
        self.assertRaisesRegex(ValueError, "grace must be 0 or more seconds, not -1", future.stop, -1)
        self.assertRaisesRegex(TypeError, "grace must be a number of seconds, not 'a'", future.stop, "a")


class Timeouts(support.TestCase):
    """Time limits of calls."""

    def test_late_call_is_stopped_and_its_worker_goes_on(self):
        executor = self.executor(1, call_timeout=0.2)
        pid = executor.submit(os.getpid).result()
        with self.assertRaisesRegex(farcall.Timeout, "sleep has not ended within its time limit of 0.2 s on node 1"):
            executor.submit(time.sleep, 60).result()
        self.assertEqual(executor.submit(os.getpid).result(), pid)
        self.assertTrue(issubclass(farcall.Timeout, TimeoutError))

    def test_limit_of_single_calls(self):
        executor = self.executor(1)
        limited = executor.with_timeout(0.2)
        self.assertIsNone(executor.submit(time.sleep, 0.5).result())
        self.assertRaises(farcall.Timeout, limited.submit(time.sleep, 60).result)
        self.assertRaises(farcall.Timeout, limited.function(time.sleep), 60)
        self.assertRaises(farcall.Timeout, limited.create, time.sleep, 60)
        self.assertEqual(limited.function(tasks.same)(1), 1)
        self.assertRaises(farcall.Timeout, list, limited.map(time.sleep, [0, 60]))
        self.assertIsNone(limited.with_timeout(None).submit(time.sleep, 0.5).result())

    def test_calls_that_wait_for_a_worker_are_not_late(self):
        executor = self.executor(1, call_timeout=2)
        futures = [executor.submit(time.sleep, 0.5) for _ in range(6)]
        self.assertEqual([future.result() for future in futures], [None] * 6)

    def test_call_that_catches_the_interruption_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            executor = self.executor(1, call_timeout=0.2)
            late = executor.submit(tasks.sleep_stubbornly, os.path.join(folder, "pid"))
            waiting = executor.submit(tasks.same, 5)
            self.assertRaises(farcall.Timeout, late.result)
            self.assertEqual(waiting.result(), 5)

    def test_timeout_is_noticed_while_nobody_waits(self):
        called = threading.Event()
        future = self.executor(1, call_timeout=0.1).submit(time.sleep, 60)
        future.add_done_callback(lambda _: called.set())
        self.assertTrue(called.wait(support.GUARD_SECONDS / 2))
        self.assertIsInstance(future.exception(), farcall.Timeout)

    def test_tasks_may_use_time_limits(self):
        executor = self.executor(1)
        self.assertIn("limit of 0.2 s", executor.submit(tasks.nested_timeout, executor, 0.2).result())

    def test_view_keeps_the_executor_alive(self):
        limited = farcall.Executor(1).with_timeout(support.GUARD_SECONDS)
        self.assertEqual(limited.submit(tasks.same, 1).result(), 1)
        limited.shutdown()


if __name__ == "__main__":
    support.main()
