# SPDX-License-Identifier: Apache-2.0
"""Tests of limits of executors: memory, repeated calls, arguments, and uses at unusual times."""

import concurrent.futures
import gc
import itertools
import math
import multiprocessing
import os
import signal
import tempfile
import threading
import time

import farcall
import support
import tasks


class Arguments(support.TestCase):
    """Errors say what to pass."""

    def test_wrong_arguments_of_executors_are_refused(self):
        whole = "must be a whole number"
        for error, text, options in (
                (TypeError, f"max_workers {whole}.*not b'a' \\(bytes\\)", {"max_workers": b"a"}),
                (ValueError, "no transport", {"max_workers": "a"}),
                (TypeError, "max_workers must be a whole number or URLs, not the text '4'", {"max_workers": "4"}),
                (TypeError, "no parameter 'max_task_per_child'; did you mean 'max_tasks_per_child'", {
                    "max_task_per_child": 3}),
                (TypeError, "no parameter 'mp_context'; help.farcall.Executor. lists", {"mp_context": None}),
                (TypeError, "the option 'key' is only for workers with URLs", {"key": "file"}),
                (TypeError, f"max_workers {whole}", {"max_workers": True}),
                (TypeError, f"max_workers {whole}", {"max_workers": 1.5}),
                (ValueError, "max_workers must be at least 0, not -1; 0 is for calls", {"max_workers": -1}),
                (TypeError, r"preload must be a list of names of modules, such as \['os'\]", {"preload": "os"}),
                (TypeError, "preload must contain names of modules, not 1", {"preload": [1]}),
                (TypeError, "preload must be a list", {"preload": 1}),
                (ValueError, "threads_per_worker must be at least 1, not 0", {"threads_per_worker": 0}),
                (TypeError, f"threads_per_worker {whole}", {"threads_per_worker": "4"}),
                (ValueError, "max_tasks_per_child must be at least 1", {"max_tasks_per_child": 0}),
                (TypeError, f"max_tasks_per_child {whole}", {"max_tasks_per_child": 2.0}),
                (TypeError, "initializer must be a function", {"initializer": "text"}),
                (TypeError, "initargs must be a tuple of arguments, such as", {"initargs": 5}),
                (TypeError, "initargs must be a tuple of arguments, such as", {"initargs": "text"}),
                (ValueError, "retries must be at least 0", {"retries": -1}),
                (TypeError, f"retries {whole}", {"retries": None}),
                (ValueError, 'max_rss must be a number of bytes, or a text such as "4GiB"', {"max_rss": "much"}),
                (ValueError, "max_rss must be", {"max_rss": "-1GiB"}),
                (ValueError, "max_rss must be at least 1", {"max_rss": 0}),
                (TypeError, "max_rss must be a whole number of bytes", {"max_rss": 1.5}),
                (ValueError, "call_timeout must be greater than 0 seconds, not 0", {"call_timeout": 0}),
                (ValueError, "call_timeout must be greater than 0 seconds, not nan", {"call_timeout": float("nan")}),
                (TypeError, "call_timeout must be a number of seconds, not 'a'", {"call_timeout": "a"})):
            with self.assertRaisesRegex(error, text, msg=str(options)):
                farcall.Executor(**options)

    def test_wrong_arguments_of_calls_are_refused(self):
        executor = self.executor(0)
        self.assertRaisesRegex(TypeError, "the first argument of submit.. must be a function", executor.submit, 5)
        self.assertRaisesRegex(TypeError, "the argument of function.. must be a function", executor.function, "f")
        self.assertRaisesRegex(TypeError, "the first argument of map.. must be a function", executor.map, None, [1])
        for options in ({"chunksize": 0}, {"buffersize": 0}):
            self.assertRaisesRegex(ValueError, "must be at least 1", executor.map, abs, [1], **options)
        for options in ({"chunksize": 1.5}, {"buffersize": "1"}):
            self.assertRaisesRegex(TypeError, "must be a whole number", executor.map, abs, [1], **options)
        self.assertRaisesRegex(ValueError, "seconds must be greater than 0", executor.with_timeout, -1)

    def test_infinity_is_no_limit(self):
        executor = self.executor(1)
        for limit in (math.inf, 1e30):
            self.assertEqual(executor.with_timeout(limit).submit(abs, -1).result(), 1)
        with farcall.Executor(1, call_timeout=math.inf) as limited:
            self.assertEqual(limited.submit(abs, -1).result(), 1)

    def test_a_worker_that_does_not_exist_is_refused(self):
        executor = self.executor(1)
        for worker in ("a", slice(0, 1), abs):
            self.assertRaisesRegex(TypeError, "given by a number from 0 on, or by executor.i.", executor.submit_to,
                                   worker, abs, 1)
        for worker in (1, -2):
            self.assertRaisesRegex(IndexError, f"no worker {worker}; it has 1", executor.submit_to, worker, abs, 1)
        self.assertEqual(executor.submit_to(-1, abs, -1).result(), 1)

    def test_objects_that_cannot_be_sent_have_a_hint(self):
        executor = self.executor(1)
        for argument, hint in ((multiprocessing.get_context("fork").Lock(), "objects of a multiprocessing.Manager"),
                               ((i for i in range(3)), "list.generator.")):
            error = executor.submit(id, argument).exception()
            self.assertRegex(" ".join(error.__notes__), hint)
        error = executor.submit(tasks.coroutine).exception()
        self.assertRegex(" ".join(error.__notes__), "asyncio.run")

    def test_executors_and_functions_have_names(self):
        executor = self.executor(1)
        self.assertEqual(repr(executor), "<farcall.Executor with 1 worker>")
        self.assertEqual(repr(executor.function(tasks.allocate)), "<farcall function allocate>")
        self.assertEqual(repr(executor.with_timeout(60).function(abs)), "<farcall function abs>")

    def test_sizes_have_units(self):
        from farcall import _arguments

        for text, size in (("4GiB", 4 << 30), ("500 MB", 500_000_000), ("1.5kib", 1536), ("7", 7), (12, 12)):
            self.assertEqual(_arguments.size("max_rss", text), size)


class Memory(support.TestCase):
    """max_rss."""

    def test_worker_with_too_much_memory_is_replaced(self):
        executor = self.executor(1, max_rss="120MiB")
        first = executor.submit(os.getpid).result()
        self.assertEqual(executor.submit(os.getpid).result(), first)
        self.assertEqual(executor.submit(tasks.allocate, 150).result(), first)
        self.assertNotEqual(executor.submit(os.getpid).result(), first)

    def test_replaced_workers_leave_no_memory_behind(self):
        mib = 1 << 20
        replaced = 40
        executor = self.executor(1, max_tasks_per_child=1)

        def call(times):
            for _ in range(times):
                self.assertEqual(len(executor.submit(bytes, mib).result()), mib)
            return [size * 1024 for size in support.sizes_of_process("VmSize", "RssShmem")]

        space_before, memory_before = call(5)
        space, memory = call(replaced)
        # A replaced worker leaves addresses of its lanes, without pages, and none of its heap.
        self.assertLess(space - space_before, replaced * 64 * mib)
        self.assertLess(memory - memory_before, replaced * mib // 2)

    def test_idle_worker_adds_little_memory_to_its_zygote(self):
        executor = self.executor(1)
        pid = executor.submit(os.getpid).result()
        worker, zygote = (support.anonymous_memory_of(each) for each in (pid, executor._pool._zygote.pid))
        # Tables for nodes and lanes take no memory for numbers that are not used.
        self.assertLess(worker - zygote, 1 << 20)

    def test_functions_count_for_the_limits_of_workers(self):
        pid_of = self.executor(1, max_tasks_per_child=2).function(os.getpid)
        pids = [pid_of() for _ in range(6)]
        self.assertEqual([len(list(group)) for _, group in itertools.groupby(pids)], [2, 2, 2])


class Retries(support.TestCase):
    """retries."""

    def test_call_whose_worker_dies_is_repeated(self):
        executor = self.executor(1, retries=1)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(executor.submit(tasks.die_unless, os.path.join(folder, "one")).result(), "done")
            self.assertEqual(executor.function(tasks.die_unless)(os.path.join(folder, "two")), "done")

    def test_call_is_not_repeated_more_often_than_that(self):
        executor = self.executor(1, retries=2)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pids")
            with self.assertRaises(farcall.NodeFailed):
                executor.submit(tasks.note_and_die, path).result()
            with open(path, encoding="ascii") as file:
                self.assertEqual(len(file.readlines()), 3)


class Ends(support.TestCase):
    """terminate_workers(), kill_workers(), and uses after the end."""

    def test_all_calls_fail_if_the_workers_are_ended(self):
        for method, name in (("terminate_workers", "SIGTERM"), ("kill_workers", "SIGKILL")):
            executor = self.executor(1)
            running = executor.submit(time.sleep, 60)
            self.assertTrue(support.wait_until(running.running))
            pending = executor.submit(tasks.same, 1)
            pids = list(executor._pool.pids().values())
            getattr(executor, method)()
            with self.assertRaisesRegex(farcall.NodeFailed, f"was killed by {name}"):
                running.result()
            self.assertRaises((concurrent.futures.CancelledError, farcall.NodeFailed), pending.result)
            self.assertRaises(RuntimeError, executor.submit, tasks.same, 1)
            self.assertTrue(support.wait_until(lambda p=pids: all(map(support.is_gone, p))))

    def test_results_of_map_can_be_read_after_shutdown(self):
        with farcall.Executor(2) as executor:
            results = executor.map(pow, range(5000), itertools.repeat(2))
            endless = executor.map(tasks.same, itertools.count())
        self.assertEqual(list(results), [number * number for number in range(5000)])
        self.assertEqual(list(itertools.islice(endless, 1000)), list(range(1000)))
        self.assertRaises(RuntimeError, executor.map, abs, [1])
        pids = list(executor._pool.pids().values())
        endless.close()
        self.assertTrue(support.wait_until(lambda: all(map(support.is_gone, pids))))

    def test_dropped_results_of_map_let_the_workers_end(self):
        executor = farcall.Executor(1)
        endless = executor.map(tasks.same, itertools.count())
        pids = list(executor._pool.pids().values())
        executor.shutdown()
        del endless
        gc.collect()
        self.assertTrue(support.wait_until(lambda: all(map(support.is_gone, pids))))

    def test_program_ends_although_a_map_was_not_read(self):
        status, out, errors = support.run_program("""
            import farcall, itertools
            executor = farcall.Executor(1)
            results = executor.map(abs, itertools.count())
            print(next(results))
        """)
        self.assertEqual((status, out, errors), (0, "0\n", ""))

    def test_function_keeps_its_executor_alive(self):
        add = farcall.Executor(1).function(tasks.same)
        gc.collect()
        self.assertEqual(add(3), 3)

    def test_function_tells_the_worker_and_its_name(self):
        with self.assertRaisesRegex(farcall.NodeFailed, r"node 1 \(pid \d+\) was killed by SIGKILL while it ran die;"):
            self.executor(1).function(tasks.die)()


class StoppedWorkers(support.TestCase):
    """Workers that take no messages."""

    def test_submit_does_not_wait_for_stopped_workers(self):
        executor = self.executor(1)
        pid = executor.submit(os.getpid).result()
        support.stop(pid)
        try:
            futures = []
            done = threading.Event()

            def submit():
                futures.extend(executor.submit(tasks.same, bytes(200_000)) for _ in range(300))
                done.set()

            threading.Thread(target=submit, daemon=True).start()
            self.assertTrue(done.wait(support.GUARD_SECONDS / 2))
            self.assertFalse(any(future.done() for future in futures))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertTrue(all(future.result() == bytes(200_000) for future in futures))

    def test_other_workers_serve_while_one_is_stopped(self):
        executor = self.executor(2)
        pid = executor.submit(os.getpid).result()
        support.stop(pid)
        try:
            futures = [executor.submit(tasks.same, number) for number in range(200)]
            # The stopped worker has got a call before anybody knew.
            self.assertTrue(support.wait_until(lambda: sum(future.done() for future in futures) >= 100))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual([future.result() for future in futures], list(range(200)))


class Guests(support.TestCase):
    """Executors that tasks make."""

    def test_task_may_make_an_executor_with_workers(self):
        for workers in (1, 2):
            got = self.executor(workers).submit(tasks.use_own_executor, 2).result()
            self.assertEqual(got, ("guest", [16, 9], 27, "cannot schedule new futures after shutdown"))


if __name__ == "__main__":
    support.main()
