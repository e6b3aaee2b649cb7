# SPDX-License-Identifier: Apache-2.0
"""Tests of farcall.Executor."""

import array
import collections
import concurrent.futures
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import unittest.mock
import weakref

import farcall
import support
import tasks

VALUES = [None, True, False, 0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1, 1 << 63, 1 << 200, 0.0, -1.5, float("inf"), "",
          "text", "ä€", "\ud800", "x" * 3_000_000, b"", b"\0bytes", b"x" * 3_000_000, (), (1, "a", None), ((1,), 2),
          tuple(range(300)), [1, 2], {"a": (1, [2])}, {1, 2}, 1j, bytearray(b"ab"), range(3), ValueError("text")]


class Values(support.TestCase):
    """Arguments and results arrive as they were."""

    def test_arguments_and_results_arrive(self):
        executor = self.executor(1)
        call = executor.function(tasks.same)
        for value in VALUES:
            for got in (call(value), executor.submit(tasks.same, value).result()):
                self.assertIs(type(got), type(value))
                self.assertEqual(repr(got), repr(value))

    def test_many_arguments_arrive(self):
        call = self.executor(1).function(tasks.same)
        self.assertEqual(call(1, 2.5, "x", (True, None), b"y"), (1, 2.5, "x", (True, None), b"y"))
        self.assertEqual(call(*range(400)), tuple(range(400)))
        self.assertEqual(call(1, two=2), ((1,), {"two": 2}))

    def test_types_of_subclasses_are_kept(self):
        call = self.executor(1).function(tasks.same)
        for value in (os.stat_result(range(10)), signal.SIGINT, collections.Counter("abc")):
            self.assertIs(type(call(value)), type(value))

    def test_large_buffers_arrive_writable(self):
        data = bytearray(os.urandom(1 << 20))
        got = self.executor(1).submit(tasks.same, pickle.PickleBuffer(data)).result()
        self.assertEqual(got, data)
        got[0] ^= 255
        self.assertNotEqual(got, data)


class Calls(support.TestCase):
    """submit() and function()."""

    def test_function_follows_its_arguments(self):
        call = self.executor(2).function(divmod)
        self.assertEqual(call(17, 5), (3, 2))
        with self.assertRaises(ZeroDivisionError):
            call(1, 0)

    def test_function_is_sent_to_a_worker_once(self):
        call = self.executor(1).function(functools.partial(tasks.loads_of, tasks.CountsLoads()))
        self.assertEqual([call() for _ in range(5)], [1] * 5)

    def test_threads_may_call_at_the_same_time(self):
        executor = self.executor(2)
        call = executor.function(tasks.same)
        wrong = []

        def work(start):
            for i in range(start, start + 300):
                if call(i) != i or executor.submit(tasks.same, i).result() != i:
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i * 1000,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_calls_run_in_parallel(self):
        executor = self.executor(3)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            futures = [executor.submit(tasks.pid_after, path) for _ in range(3)]
            self.assertTrue(support.wait_until(lambda: all(future.running() for future in futures)))
            open(path, "w", encoding="ascii").close()
            self.assertEqual(len({future.result() for future in futures}), 3)
            self.assertEqual(len({future.node for future in futures}), 3)

    def test_calls_behind_a_long_call_change_workers(self):
        executor = self.executor(2)
        # After many short calls, workers get several calls at a time.
        farcall.wait([executor.submit(tasks.same, i) for i in range(3000)])
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            futures = [executor.submit(tasks.same, i) for i in range(50)]
            long = executor.submit(tasks.pid_after, path)
            futures += [executor.submit(tasks.same, i) for i in range(50, 100)]
            self.assertEqual([future.result() for future in futures], list(range(100)))
            self.assertFalse(long.done())
            open(path, "w", encoding="ascii").close()
            self.assertGreater(long.result(), 0)

    def test_wake_up_does_not_count_as_a_call(self):
        express = self.executor(1)._pool.express
        for _ in range(30):
            express.measure(1e-6, False)
        ahead = express.window()
        express.measure(500e-6, True)
        self.assertEqual(express.window(), ahead)
        express.measure(500e-6, False)
        self.assertLess(express.window(), ahead)
        for _ in range(30):
            express.measure(1e-6, False)
        express.measure(0.1, True)
        self.assertEqual(express.window(), 1)

    def test_thousands_of_large_calls_do_not_deadlock(self):
        executor = self.executor(2)
        data = b"x" * 100_000
        futures = [executor.submit(tasks.same, data) for _ in range(500)]
        self.assertTrue(all(future.result() == data for future in futures))

    def test_tasks_run_in_the_main_thread(self):
        executor = self.executor(1)
        self.assertEqual(executor.submit(tasks.thread_name).result(), "MainThread")

    def test_pending_call_can_be_cancelled(self):
        executor = self.executor(1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            running, pending = (executor.submit(tasks.pid_after, path) for _ in range(2))
            self.assertTrue(support.wait_until(running.running))
            self.assertFalse(running.cancel())
            self.assertTrue(pending.cancel())
            open(path, "w", encoding="ascii").close()
            self.assertGreater(running.result(), 0)

    def test_callbacks_run_without_a_waiting_thread(self):
        called = threading.Event()
        self.executor(1).submit(tasks.same, 1).add_done_callback(lambda future: called.set())
        self.assertTrue(called.wait(support.GUARD_SECONDS / 2))

    def test_callback_that_exits_ends_no_thread_of_the_executor(self):
        executor = self.executor(1)
        called = threading.Event()
        with self.assertLogs("concurrent.futures", "ERROR") as logs:
            future = executor.submit(time.sleep, 0.1)
            future.add_done_callback(lambda _: sys.exit(3))
            future.add_done_callback(lambda _: called.set())
            self.assertTrue(called.wait(support.GUARD_SECONDS / 2))
        self.assertIn("SystemExit: 3", logs.output[0])
        called.clear()
        executor.submit(tasks.same, 1).add_done_callback(lambda _: called.set())
        self.assertTrue(called.wait(support.GUARD_SECONDS / 2))

    def test_callback_may_submit_and_wait(self):
        executor = self.executor(1)
        got = concurrent.futures.Future()

        def continue_with(future):
            executor.submit(tasks.same, future.result() + 1).add_done_callback(lambda f: got.set_result(f.result()))

        executor.submit(tasks.same, 1).add_done_callback(continue_with)
        self.assertEqual(got.result(support.GUARD_SECONDS / 2), 2)

    def test_callback_may_wait_for_another_call(self):
        executor = self.executor(1)
        got = concurrent.futures.Future()

        def wait_for_others(future):
            others = [executor.submit(tasks.same, future.result() + i) for i in range(5)]
            got.set_result([other.result() for other in others])

        executor.submit(tasks.same, 1).add_done_callback(wait_for_others)
        self.assertEqual(got.result(support.GUARD_SECONDS / 2), [1, 2, 3, 4, 5])

    def test_call_with_a_dropped_future_frees_its_arguments(self):
        executor = self.executor(1)
        for pause in (0.2, 2.0):  # the thread of the pool is awake from time to time, and asleep
            self.assertEqual(executor.submit(tasks.same, 1).result(), 1)
            time.sleep(pause)
            argument = tasks.Holder()
            freed = threading.Event()
            kept = weakref.ref(argument, lambda _: freed.set())
            executor.submit(argument.call)
            del argument
            self.assertTrue(freed.wait(20), kept)

    def test_done_becomes_true_without_a_waiting_thread(self):
        future = self.executor(1).submit(tasks.same, 1)
        self.assertTrue(support.wait_until(future.done))

    def test_workers_have_the_environment_of_the_host(self):
        os.environ["FARCALL_TEST_VALUE"] = "set by the host"
        self.addCleanup(os.environ.pop, "FARCALL_TEST_VALUE")
        executor = self.executor(1)
        self.assertEqual(executor.submit(os.getenv, "FARCALL_TEST_VALUE").result(), "set by the host")
        self.assertEqual(executor.submit(os.getcwd).result(), os.getcwd())

    def test_numerical_libraries_share_the_processors(self):
        self.assertEqual(self.executor(1, threads_per_worker=3).submit(os.getenv, "OMP_NUM_THREADS").result(), "3")

    def test_calls_after_shutdown_are_refused(self):
        executor = self.executor(1)
        executor.shutdown()
        with self.assertRaises(RuntimeError):
            executor.submit(tasks.same, 1)
        with self.assertRaises(RuntimeError):
            executor.function(tasks.same)

    def test_shutdown_without_waiting_finishes_the_calls(self):
        executor = self.executor(1)
        futures = [executor.submit(tasks.same, i) for i in range(20)]
        executor.shutdown(wait=False)
        self.assertEqual([future.result() for future in futures], list(range(20)))

    def test_dropped_executor_ends_its_workers(self):
        executor = farcall.Executor(1)
        pid = executor.submit(os.getpid).result()
        del executor
        self.assertTrue(support.wait_until(lambda: support.is_gone(pid)))


class Errors(support.TestCase):
    """Exceptions of tasks, and objects that cannot be sent."""

    def test_exception_has_its_class_and_the_remote_lines(self):
        executor = self.executor(1)
        for call in (executor.function(tasks.fail), lambda text: executor.submit(tasks.fail, text).result()):
            with self.assertRaises(LookupError) as caught:
                call("missing")
            self.assertEqual(caught.exception.args, ("missing",))
            self.assertIn("raise LookupError(text)", str(caught.exception.__cause__))
            self.assertIn("on node 1 (pid ", caught.exception.__notes__[-1])

    def test_exceptions_that_cannot_be_sent_are_remote_errors(self):
        executor = self.executor(1)
        for kind, text in (("read", "UnreadableError: one two"), ("send", "UnpicklableError: locked")):
            with self.assertRaisesRegex(farcall.RemoteError, text):
                executor.submit(tasks.fail_strangely, kind).result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_exceptions_of_classes_with_other_arguments_arrive(self):
        executor = self.executor(1)
        for make, arguments, expected, members in (
                (tasks.TwoArgumentsError, ("one ", "two"), "one two", {"first": "one ", "second": "two"}),
                (tasks.NoSuchPathError, ("/no",), "[Errno 2] no such path: '/no'", {"errno": 2, "filename": "/no"}),
                (tasks.DescribedError, ("text",), "described: text", {"args": ("described: text",)})):
            for call in (executor.function(tasks.raise_it),
                         lambda *given: executor.submit(tasks.raise_it, *given).result()):
                with self.assertRaises(make) as caught:
                    call(make, *arguments)
                self.assertEqual(str(caught.exception), expected)
                self.assertEqual({name: getattr(caught.exception, name) for name in members}, members)
                self.assertIn("in raise_it", str(caught.exception.__cause__))
                self.assertIn("on node 1 (pid ", caught.exception.__notes__[-1])

    def test_groups_of_exceptions_arrive(self):
        with self.assertRaises(ExceptionGroup) as caught:
            self.executor(1).submit(tasks.raise_it, tasks.group_of_errors).result()
        first, second = caught.exception.exceptions
        self.assertEqual((type(first), str(first), type(second)), (tasks.TwoArgumentsError, "one two", ValueError))
        self.assertIn("no such path: '/cause'", str(caught.exception.__cause__))

    def test_tracebacks_have_no_frames_of_farcall(self):
        folder = os.path.dirname(os.path.abspath(farcall.__file__))

        def shown():
            """Returns the tracebacks of the worker and of the caller for several ways to call."""
            with farcall.Executor(1) as executor:
                for call in (lambda: executor.submit(functools.partial(tasks.fail, "missing")).result(),
                             lambda: list(executor.map(tasks.fail, ["missing"])),
                             lambda: executor.submit(tasks.fail_nested, executor).result()):
                    with self.assertRaises(LookupError) as caught:
                        call()
                    yield caught.exception

        for error in shown():
            self.assertIn("raise LookupError(text)", str(error.__cause__))
            for text in (str(error.__cause__), "".join(traceback.format_tb(error.__traceback__))):
                self.assertNotIn(folder, text)
                self.assertNotIn("concurrent/futures", text)
        with unittest.mock.patch.dict(os.environ, {"FARCALL_PYTHON_TRACEBACK": "full"}):
            self.assertTrue(all(folder in str(error.__cause__) for error in shown()))

    def test_argument_that_cannot_be_sent_fails_at_once(self):
        future = self.executor(1).submit(tasks.same, tasks.Unpicklable())
        self.assertTrue(future.done())
        self.assertRaisesRegex(TypeError, "cannot be pickled", future.result)

    def test_argument_that_cannot_be_read_fails(self):
        with self.assertRaisesRegex(LookupError, "not to be read"):
            self.executor(1).submit(tasks.same, tasks.BreaksWhenRead()).result()

    def test_results_that_cannot_be_sent_or_read_fail(self):
        executor = self.executor(1)
        for call in (executor.function(tasks.give), lambda kind: executor.submit(tasks.give, kind).result()):
            self.assertRaisesRegex(TypeError, "cannot be pickled", call, "send")
            self.assertRaisesRegex(LookupError, "not to be read", call, "read")
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_exit_of_a_task_is_its_exception(self):
        executor = self.executor(1)
        with self.assertRaises(SystemExit):
            executor.submit(exit, 3).result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_wrong_numbers_of_workers_are_refused(self):
        self.assertRaises(ValueError, farcall.Executor, -1)
        self.assertRaises(ValueError, farcall.Executor, 1, max_tasks_per_child=0)
        self.assertRaises(TypeError, farcall.Executor, 1, initializer="text")

    def test_module_that_cannot_be_preloaded_is_named(self):
        with self.assertRaisesRegex(farcall.StartFailed, "cannot preload no_such_module"):
            farcall.Executor(1, preload=["no_such_module"])


class Maps(support.TestCase):
    """map()."""

    def test_results_come_in_order(self):
        executor = self.executor(2)
        for options in ({}, {"chunksize": 7}, {"buffersize": 3}, {"buffersize": 5, "chunksize": 2}):
            self.assertEqual(list(executor.map(pow, range(100), itertools.repeat(2), **options)),
                             [i * i for i in range(100)])

    def test_infinite_iterables_are_read_only_a_little_ahead(self):
        read = []

        def numbers():
            for i in itertools.count():
                read.append(i)
                yield i

        results = self.executor(1).map(tasks.same, numbers(), buffersize=4)
        self.assertEqual(len(read), 4)
        self.assertEqual(list(itertools.islice(results, 10)), list(range(10)))
        self.assertLess(len(read), 20)
        results.close()
        adaptive = self.executor(1).map(tasks.same, itertools.count())
        self.assertEqual(list(itertools.islice(adaptive, 1000)), list(range(1000)))
        adaptive.close()

    def test_results_are_dropped_once_they_are_given(self):
        executor = self.executor(1)
        alive = []
        for value in executor.map(array.array, "d" * 40, [range(1000)] * 40):
            reference = weakref.ref(value)
            del value
            alive.append(reference() is not None)
        self.assertEqual(alive, [False] * 40)

    def test_results_before_an_exception_are_given(self):
        results = self.executor(1).map(divmod, [4, 6, 1, 8], [2, 3, 0, 4], chunksize=4)
        self.assertEqual([next(results), next(results)], [(2, 0), (2, 0)])
        with self.assertRaises(ZeroDivisionError) as caught:
            next(results)
        self.assertIn("on node 1", caught.exception.__notes__[-1])

    def test_results_may_come_as_soon_as_they_are_ready(self):
        executor = self.executor(2)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            results = executor.map(tasks.same_after, [path, None, None], [1, 2, 3], chunksize=1, unordered=True)
            self.assertEqual({next(results), next(results)}, {2, 3})
            open(path, "w", encoding="ascii").close()
            self.assertEqual(list(results), [1])
        for options in ({}, {"chunksize": 7}, {"buffersize": 3}):
            self.assertEqual(sorted(executor.map(tasks.same, range(100), unordered=True, **options)), list(range(100)))
        endless = executor.map(tasks.same, itertools.count(), unordered=True)
        self.assertEqual(len(set(itertools.islice(endless, 1000))), 1000)
        endless.close()

    def test_unordered_results_raise(self):
        executor = self.executor(1)
        results = executor.map(divmod, [4, 6, 1], [2, 3, 0], unordered=True, chunksize=3)
        self.assertEqual([next(results), next(results)], [(2, 0), (2, 0)])
        self.assertRaises(ZeroDivisionError, next, results)
        self.assertRaises(StopIteration, next, results)
        late = executor.map(time.sleep, [30], timeout=0.05, unordered=True)
        self.assertRaises(TimeoutError, next, late)
        executor.kill_workers()

    def test_rows_may_be_tuples(self):
        executor = self.executor(1)
        rows = [(i, 2) for i in range(50)]
        self.assertEqual(list(executor.starmap(pow, rows)), [i * i for i in range(50)])
        self.assertEqual(sorted(executor.starmap(pow, rows, unordered=True)), [i * i for i in range(50)])
        self.assertEqual(list(self.executor(0).starmap(pow, iter(rows))), [i * i for i in range(50)])

    def test_late_results_raise(self):
        results = self.executor(1).map(time.sleep, [0, 1], timeout=0.2, chunksize=1)
        self.assertIsNone(next(results))
        self.assertRaises(TimeoutError, next, results)


class Workers(support.TestCase):
    """Initialisers, replacement, and no workers at all."""

    def test_initializer_runs_in_each_worker(self):
        executor = self.executor(2, initializer=tasks.initialise, initargs=("ready",))
        self.assertEqual({executor.submit(tasks.status).result() for _ in range(10)}, {"ready"})
        self.assertEqual(executor.function(tasks.status)(), "ready")

    def test_tasks_use_objects_of_managers(self):
        with multiprocessing.get_context("fork").Manager() as manager:
            queue = manager.Queue()
            self.executor(1).submit(queue.put, 5).result()
            self.assertEqual(queue.get(timeout=support.GUARD_SECONDS / 2), 5)

    def test_failed_initializer_breaks_the_executor(self):
        for status, text in (("fail", "no such status"), ("die", "end as soon as they have started")):
            executor = self.executor(1, initializer=tasks.initialise, initargs=(status,))
            with self.assertRaisesRegex(concurrent.futures.BrokenExecutor, text):
                executor.submit(tasks.same, 1).result()
            # Also after the executor's thread has ended.
            for _ in range(2):
                with self.assertRaisesRegex(concurrent.futures.BrokenExecutor, text):
                    executor.submit(tasks.same, 1)
                executor.shutdown()

    def test_workers_are_replaced_after_their_last_task(self):
        executor = self.executor(1, max_tasks_per_child=3, initializer=tasks.initialise, initargs=("ready",))
        pids = [executor.submit(os.getpid).result() for _ in range(9)]
        self.assertEqual([len(list(group)) for _, group in itertools.groupby(pids)], [3, 3, 3])
        self.assertEqual(executor.submit(tasks.status).result(), "ready")

    def test_preloaded_modules_are_there(self):
        executor = self.executor(1, preload=["colorsys"])
        self.assertTrue(executor.submit(eval, "'colorsys' in __import__('sys').modules").result())

    def test_preloaded_modules_find_the_limit(self):
        for threads in (3, 5):
            executor = self.executor(1, preload=["thread_limit"], threads_per_worker=threads)
            self.assertEqual(executor.submit(tasks.limit_at_import).result(), str(threads))

    def test_length_is_the_number_of_workers(self):
        executor = self.executor(3)
        self.assertEqual((len(executor), len(set(each.pid for each in executor))), (3, 3))
        self.assertEqual((len(self.executor(0)), bool(self.executor(0))), (0, True))

    def test_executor_without_workers_runs_calls_in_place(self):
        executor = self.executor(0, initializer=tasks.initialise, initargs=("here",))
        self.assertEqual(executor.submit(os.getpid).result(), os.getpid())
        self.assertEqual(executor.submit(tasks.status).result(), "here")
        self.assertRaises(LookupError, executor.submit(tasks.fail, "missing").result)
        self.assertEqual(list(executor.map(pow, [1, 2], [3, 4])), [1, 16])
        self.assertEqual(executor.function(tasks.same)(5), 5)


class Nested(support.TestCase):
    """Calls of tasks."""

    def test_task_waits_for_tasks_of_its_only_worker(self):
        executor = self.executor(1)
        self.assertEqual(executor.submit(tasks.count_down, executor, 20).result(), 20)
        self.assertEqual(executor.submit(tasks.count_down_by_functions, executor, 20).result(), 20)

    def test_threads_of_tasks_may_call_tasks(self):
        executor = self.executor(2)
        for call in ("submit", "function"):
            futures = [executor.submit(tasks.call_in_threads, executor, call, 4, 3) for _ in range(4)]
            for future in futures:
                # Each of the threads counts its calls, at each depth.
                self.assertEqual(future.result(support.GUARD_SECONDS / 2), 4 + 4**2 + 4**3)

    def test_thread_that_outlives_its_task_may_call_tasks(self):
        executor = self.executor(1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "result")
            executor.submit(tasks.call_later_in_a_thread, executor, path).result()
            # The next task waits for the thread.
            self.assertEqual(executor.submit(tasks.read_after, path).result(support.GUARD_SECONDS / 2), "49")

    def test_deep_recursion_needs_one_worker(self):
        executor = self.executor(1)
        self.assertEqual(executor.submit(tasks.count_down, executor, 1000).result(), 1000)

    def test_tasks_of_tasks_get_copies_and_raise_remote_errors(self):
        for workers in (1, 2):
            executor = self.executor(workers)
            self.assertEqual(executor.submit(tasks.lend_list, executor).result(), ([1], [1, 2]))
            kind, cause, note = executor.submit(tasks.catch_nested, executor).result()
            self.assertEqual(kind, "LookupError")
            self.assertIn("raise LookupError(text)", cause)
            self.assertRegex(note, r"on node \d+ \(pid \d+")

    def test_task_of_a_task_runs_although_no_task_waits(self):
        executor = self.executor(1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "written")
            self.assertGreater(executor.submit(tasks.submit_and_poll, executor, path).result(), 0)

    def test_task_waits_for_many_tasks(self):
        for workers in (1, 3):
            executor = self.executor(workers)
            self.assertEqual(executor.submit(tasks.sum_of_tasks, executor, list(range(50))).result(), (1225, 1225))
            # The helper threads take no more calls.
            self.assertTrue(support.wait_until(lambda: executor.function(tasks.thread_name)() == "MainThread"))

    def test_task_waits_for_calls_of_callbacks(self):
        executor = self.executor(1)
        self.assertTrue(executor.submit(tasks.chain, executor, 100).result())

    def test_worker_may_have_an_executor_of_its_own(self):
        self.assertEqual(self.executor(1).submit(tasks.own_executor).result(), 49)


if __name__ == "__main__":
    support.main()
