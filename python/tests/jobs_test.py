# SPDX-License-Identifier: Apache-2.0
"""Tests of farcall.Job, and of executors whose workers have URLs."""

import asyncio
import contextlib
import io
import logging
import operator
import os
import queue
import signal
import socket
import sys
import threading
import time

import farcall
import support
import tasks
from farcall import _core


class JobCase(support.TestCase):
    """Jobs that end with their test."""

    def job(self, *arguments, **options):
        """Returns a job that ends with the test."""
        made = farcall.Job(*arguments, **options)
        self.addCleanup(made.end)
        return made


class Nodes(JobCase):
    """Nodes of a job."""

    def test_job_is_a_sequence_of_its_nodes(self):
        job = self.job("shm:2")
        self.assertEqual(len(job), 3)
        self.assertEqual([node.id for node in job], [0, 1, 2])
        self.assertEqual(job[-1], job.node(2))
        self.assertEqual(len({job[1], job[1], job[2]}), 2)
        self.assertEqual([node.id for node in job.targets], [1, 2])
        self.assertTrue(job)
        self.assertRaisesRegex(IndexError, "no node 3; its last node is 2", lambda: job[3])
        self.assertRaises(IndexError, lambda: job[-4])

    def test_nodes_are_described(self):
        job = self.job("shm?name=solver")
        self.assertEqual((job[0].name, job[1].name), ("host", "solver"))
        self.assertEqual(job[0].pid, os.getpid())
        self.assertEqual(job[1].host, socket.gethostname())
        self.assertEqual(job[1].describe()["transport"], "shm")
        self.assertTrue(job[1].alive)
        self.assertEqual(repr(job[1]), "<farcall.Node 1>")

    def test_nodes_join_and_leave(self):
        job = self.job("shm")
        added = job.add("shm?name=late")
        self.assertEqual((added.id, added.name, added.call(abs, -2)), (2, "late", 2))
        job[1].remove()
        self.assertFalse(job[1].alive)
        self.assertEqual(job.targets, [added])
        self.assertRaises(farcall.NodeFailed, job[1].call, abs, -2)
        started = job[1].restart()
        self.assertEqual((started.id, started.call(abs, -3)), (3, 3))

    def test_counters_count_calls(self):
        job = self.job("shm")
        before = job.counters()
        for _ in range(10):
            job[1].call(abs, -1)
        after = job.counters()
        self.assertGreaterEqual(after["calls"] - before["calls"], 10)
        self.assertGreater(after["bytes_sent"], before["bytes_sent"])


class PythonCalls(JobCase):
    """Python functions on nodes."""

    def test_functions_run_on_their_node(self):
        job = self.job("shm:2")
        for node in job.targets:
            self.assertEqual(node.call(os.getpid), node.pid)
            self.assertEqual(node.submit(os.getpid).result(), node.pid)
        self.assertEqual(job[1].call(tasks.same, 1, two=[2]), ((1,), {"two": [2]}))

    def test_many_futures_end(self):
        job = self.job("shm:2")
        futures = [job[1 + i % 2].submit(operator.mul, i, 2) for i in range(2500)]
        self.assertEqual([future.result() for future in futures], [2 * i for i in range(2500)])
        futures = [job[1].submit(operator.neg, i) for i in range(50)]
        self.assertEqual(sorted(future.result() for future in farcall.as_completed(futures)), list(range(-49, 1)))

    def test_exceptions_arrive(self):
        job = self.job("shm")
        with self.assertRaises(LookupError) as caught:
            job[1].call(tasks.fail, "missing")
        self.assertIn("raise LookupError(text)", str(caught.exception.__cause__))
        future = job[1].submit(tasks.same, tasks.Unpicklable())
        self.assertRaisesRegex(TypeError, "cannot be pickled", future.result)

    def test_calls_of_a_node_that_ends_fail(self):
        job = self.job("shm:2")
        futures = [job[1].submit(tasks.die), job[1].submit(abs, -1)]
        for future in futures:
            with self.assertRaisesRegex(farcall.NodeFailed, "SIGKILL") as caught:
                future.result()
            self.assertEqual(caught.exception.node, 1)
        self.assertEqual(job[2].call(abs, -1), 1)


class Events(JobCase):
    """Output of targets, and changes of nodes."""

    def test_output_goes_to_a_function_of_python(self):
        lines = queue.SimpleQueue()
        job = self.job("shm:2", output=lambda *line: lines.put((*line, threading.current_thread().name)))
        for node, stream in ((1, 1), (2, 2)):
            job[node].call(os.write, stream, f"line of {node} ä\n".encode())
            got = lines.get(timeout=support.GUARD_SECONDS / 2)
            self.assertEqual(got, (node, stream, f"line of {node} ä", "farcall-events"))

    def test_all_lines_come_before_the_end(self):
        lines = []
        with farcall.Job("shm", output=lambda *line: lines.append(line)) as job:
            job[1].call(os.write, 1, b"".join(b"%d\n" % i for i in range(20_000)))
        self.assertEqual(lines, [(1, 1, str(i)) for i in range(20_000)])

    def test_output_is_printed_or_logged(self):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            with farcall.Job("shm", output="print") as job:
                job[1].call(os.write, 1, b"out\n")
                job[1].call(os.write, 2, b"error\n")
        self.assertEqual((out.getvalue(), errors.getvalue()), ("out\n", "error\n"))
        with self.assertLogs("targets", logging.INFO) as logs:
            with farcall.Job("shm", output=logging.getLogger("targets")) as job:
                job[1].call(os.write, 2, b"careful\n")
        self.assertEqual(logs.output, ["WARNING:targets:node 1: careful"])

    def test_label_puts_numbers_before_lines(self):
        status, out, errors = support.run_program("""
            import farcall, os
            with farcall.Job("shm:2", output="label") as job:
                for node in job.targets:
                    node.call(os.write, 1, b"line\\n")
            """)
        self.assertEqual((status, sorted(out.splitlines()), errors), (0, ["1: line", "2: line"], ""))

    def test_error_of_a_callback_ends_nothing(self):
        lines = queue.SimpleQueue()

        def receive(node, stream, line):
            if line == "bad":
                raise LookupError(line)
            lines.put(line)

        shown = queue.SimpleQueue()
        self.addCleanup(setattr, sys, "excepthook", sys.excepthook)
        sys.excepthook = lambda kind, error, trace: shown.put(repr(error))
        job = self.job("shm", output=receive)
        job[1].call(os.write, 1, b"bad\ngood\n")
        self.assertEqual(lines.get(timeout=support.GUARD_SECONDS / 2), "good")
        self.assertEqual(shown.get(timeout=1), "LookupError('bad')")

    def test_changes_of_nodes_are_told(self):
        events = queue.SimpleQueue()
        job = self.job("shm", on_node_change=events.put)
        job[1].submit(os._exit, 3).exception()
        event = events.get(timeout=support.GUARD_SECONDS / 2)
        self.assertEqual((event.node.id, event.what, event.replaces), (1, "failed", None))
        self.assertIn("exited with status 3", event.why)
        job.on_node_change(lambda event: events.put((threading.current_thread().name, event.node.call(abs, -5))))
        job[1].restart()
        event = events.get(timeout=support.GUARD_SECONDS / 2)
        self.assertEqual((event.node.id, event.what, event.why), (2, "joined", ""))
        # A callback may call nodes.
        self.assertEqual(events.get(timeout=support.GUARD_SECONDS / 2), ("farcall-events", 5))
        self.assertRaises(TypeError, job.on_node_change, 5)


class Options(JobCase):
    """Options and URLs."""

    def test_wrong_urls_are_errors(self):
        for url, error, text in (("nonsense:3", ValueError, "no transport \"nonsense\""),
                                 ("shm:2?colour=red", ValueError, "colour"),
                                 ("shm?program=/nowhere/program", farcall.StartFailed, "/nowhere/program"),
                                 ("shm?program=/bin/true", farcall.StartFailed, "node 1"),
                                 ("shm,shm?program=/bin/true", ValueError, "with and without program="),
                                 (5, TypeError, "targets must be a text"),
                                 ("tcp://127.0.0.1:1", farcall.StartFailed, "127.0.0.1:1")):
            with self.assertRaisesRegex(error, text, msg=url):
                farcall.Job(url)

    def test_start_failed_is_an_os_error(self):
        self.assertRaises(OSError, farcall.Job, "exec:/nowhere/program")

    def test_wrong_options_are_errors(self):
        for options, error, text in (({"colour": 1}, TypeError, "unknown option 'colour'"),
                                     ({"start_timeout": -1}, ValueError, "start_timeout must be greater than 0"),
                                     ({"stop_timeout": "1"}, TypeError, "stop_timeout must be a number"),
                                     ({"spin": 1e9}, ValueError, "at most 86400"),
                                     ({"lane_bytes": 5}, ValueError, ""),
                                     ({"lane_bytes": 1 << 40}, OverflowError, "lane_bytes"),
                                     ({"workers": -1}, ValueError, "workers must not be negative"),
                                     ({"heap_bytes": 1.5}, TypeError, "heap_bytes must be an int"),
                                     ({"progress": "never"}, ValueError, "never"),
                                     ({"key": 5}, TypeError, "key must be a text"),
                                     ({"key": "/no/such/key"}, ValueError, "/no/such/key"),
                                     ({"arguments": "text"}, TypeError, "sequence of texts"),
                                     ({"output": 5}, TypeError, "output must be"),
                                     ({"on_node_change": 5}, TypeError, "must be a callable")):
            with self.assertRaisesRegex(error, text, msg=options):
                farcall.Job("shm", **options)

    def test_options_reach_the_job(self):
        job = self.job("shm:1?workers=2", stop_timeout=1.5, start_timeout=60, spin=0, yield_after=1e-5,
                       progress="thread", heap_bytes=1 << 30, lane_bytes=1 << 16, restart_lost_servers=False,
                       crash_report="off")
        self.assertEqual(job[1].describe()["workers"], 2)
        self.assertEqual(job[1].call(abs, -1), 1)

    def test_targets_come_from_the_environment(self):
        status, out, errors = support.run_program("""
            import os
            os.environ["FARCALL_TARGETS"] = "shm:3"
            import farcall
            with farcall.Job() as job:
                print(len(job.targets))
            """)
        self.assertEqual((status, out, errors), (0, "3\n", ""))

    def test_command_lines_are_targets(self):
        program = "import farcall._serve; farcall._serve.run_target()"
        job = self.job(f"exec:env PYTHONPATH={os.path.dirname(os.path.dirname(farcall.__file__))} {sys.executable} -c "
                       f"'{program}' 0?name=own")
        self.assertEqual((job[1].name, job[1].call(abs, -4)), ("own", 4))

    def test_the_program_itself_runs_no_calls(self):
        job = self.job("shm")
        self.assertRaisesRegex(ValueError, "node 0 is this program; call the function itself", job[0].call, abs, -1)
        self.assertEqual(job[1].call(abs, -1), 1)

    def test_devices_have_memory(self):
        try:
            job = self.job("cuda-emulated:0")
        except ValueError as error:
            self.skipTest(str(error))
        memory = job[1].allocate(1000)
        memory.put(bytes(range(200)) * 5)
        self.assertEqual(memory.get(bytearray(3), 100), bytes([100, 101, 102]))
        self.assertRaisesRegex(OSError, "cannot load libraries, because it is a device", job[1].load, "libm.so.6")
        self.assertRaisesRegex(farcall.UnknownFunction, "runs no Python functions", job[1].call, abs, -1)

    def test_devices_need_a_gpu(self):
        with self.assertRaises((farcall.StartFailed, ValueError)) as caught:
            farcall.Job("cuda:99")
        self.assertNotIn("\n", str(caught.exception))


class Ends(JobCase):
    """The end of jobs, and what is left behind."""

    def test_calls_that_have_not_ended_fail_at_the_end(self):
        job = farcall.Job("shm", stop_timeout=0.1)
        self.addCleanup(job.end)
        with support.TemporaryFolder() as folder:
            future = job[1].submit(tasks.note_and_sleep, os.path.join(folder, "pid"))
            self.assertTrue(support.wait_until(lambda: os.path.exists(os.path.join(folder, "pid"))))
            job.end()
        self.assertRaises(farcall.NodeFailed, future.result)
        self.assertTrue(job.has_ended)
        self.assertFalse(farcall.Node(job, 1).alive)
        for use in (lambda: len(job), lambda: job.add("shm"), job.counters, lambda: farcall.Node(job, 1).pid,
                    lambda: farcall.Node(job, 1).call(abs, 1), lambda: farcall.Node(job, 1).load("libm.so.6")):
            self.assertRaisesRegex(RuntimeError, "the job has ended", use)
        job.end()

    def test_calls_without_results_fail_at_the_end(self):
        class NoResults:
            """Queue whose results come too late, as on a machine with much other work."""

            def wake(self):
                """Does nothing."""

            def take_rest(self, append):
                """Finds nothing."""

        job = self.job("shm", stop_timeout=0.1)
        future = job[1].submit(time.sleep, 60)
        job.calls._queue = NoResults()
        job.end()
        self.assertRaisesRegex(farcall.NodeFailed, "the job has ended before", future.result)

    def test_targets_end_with_the_job(self):
        with farcall.Job("shm:2") as job:
            pids = [node.pid for node in job.targets]
        self.assertTrue(support.wait_until(lambda: all(support.is_gone(pid) for pid in pids)))

    def test_dropped_job_ends_its_targets(self):
        job = farcall.Job("shm", output=print, on_node_change=print)
        pid = job[1].pid
        del job
        self.assertTrue(support.wait_until(lambda: support.is_gone(pid)))

    def test_targets_end_with_the_program(self):
        for end in ("", "raise SystemExit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)", "raise ValueError"):
            _, out, _ = support.run_program(f"""
                import farcall, os, threading
                job = farcall.Job("shm:2", output=print, on_node_change=print)
                f = job[1].submit(abs, -1)
                f.add_done_callback(lambda f: None)
                print(*[node.pid for node in job.targets], flush=True)
                {end}
                """)
            pids = [int(pid) for pid in out.split()[:2]]
            self.assertEqual(len(pids), 2, end)
            self.assertTrue(support.wait_until(lambda: all(support.is_gone(pid) for pid in pids)), end)

    def test_several_jobs_may_be_made(self):
        first = self.job("shm")
        second = self.job("shm")
        self.assertNotEqual(first[1].call(os.getpid), second[1].call(os.getpid))
        first.end()
        self.assertEqual(second[1].call(abs, -1), 1)

    def test_futures_and_functions_keep_the_job(self):
        future = farcall.Job("shm")[1].submit(os.getpid)
        self.assertGreater(future.result(), 0)
        root = farcall.Job("shm")[1].load("libm.so.6").function("sqrt", "d(d)")
        self.assertEqual((root(4.0), root.submit(9.0).result()), (2.0, 3.0))
        pid = root.__self__[1].pid
        del future, root
        self.assertTrue(support.wait_until(lambda: support.is_gone(pid)))

    def test_futures_can_be_awaited(self):
        job = self.job("shm")

        async def wait():
            return await job[1].submit(abs, -1), await job[1].load("libm.so.6").function("sqrt", "d(d)").submit(4.0)

        self.assertEqual(asyncio.run(wait()), (1, 2.0))

    def test_stop_cancels_the_future_and_the_call_goes_on(self):
        job = self.job("shm")
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            future = job[1].submit(tasks.pid_after, path)
            self.assertTrue(future.stop())
            self.assertRaises(farcall.CancelledError, future.result)
            open(path, "w", encoding="ascii").close()
            self.assertEqual(job[1].call(abs, -1), 1)

    def test_calls_of_other_threads_fail_at_the_end(self):
        job = self.job("shm:3", stop_timeout=0.1)
        errors = queue.SimpleQueue()
        began = threading.Barrier(4)

        def call(wait):
            began.wait()
            try:
                wait()
            except Exception as error:  # pylint: disable=broad-except
                errors.put(error)

        sleep = job[1].load("libc.so.6").function("sleep", "I(I)")
        later = job[3].load("libc.so.6").function("sleep", "I(I)")
        for wait in (lambda: sleep(100), lambda: job[2].call(time.sleep, 100), lambda: later.submit(100).result(100)):
            threading.Thread(target=call, args=(wait,), daemon=True).start()
        calls = job.counters()["calls"]
        began.wait()
        # The function of the second call is sent to its node in a call of its own.
        self.assertTrue(support.wait_until(lambda: job.counters()["calls"] >= calls + 4))
        job.end()
        for _ in range(3):
            error = errors.get(timeout=support.GUARD_SECONDS / 2)
            self.assertIsInstance(error, (farcall.NodeFailed, RuntimeError))

    def test_callback_may_end_the_job(self):
        ended = threading.Event()

        def end(*_):
            job.end()
            ended.set()

        job = self.job("shm", on_node_change=end)
        job[1].submit(os._exit, 3)
        self.assertTrue(ended.wait(support.GUARD_SECONDS / 2))
        self.assertTrue(job.has_ended)

    def test_forked_child_leaves_the_job_alone(self):
        job = self.job("shm", output=print)
        pid = os.fork()
        if pid == 0:
            job.end()
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
        self.assertEqual(job[1].call(abs, -1), 1)

    def test_ctrl_c_ends_a_start(self):
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "pid")
            threading.Thread(target=interrupt_after, args=(path,)).start()
            command = f"exec:sh -c 'echo $$ > {path}.new; mv {path}.new {path}; exec sleep 100'"
            begin = time.monotonic()
            self.assertRaises(KeyboardInterrupt, farcall.Job, command, start_timeout=support.GUARD_SECONDS)
            self.assertLess(time.monotonic() - begin, support.GUARD_SECONDS / 2)
            with open(path, encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGKILL)

    def test_ctrl_c_ends_a_wait(self):
        job = self.job("shm", stop_timeout=0.1)
        threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
        begin = time.monotonic()
        self.assertRaises(KeyboardInterrupt, job[1].call, time.sleep, 100)
        self.assertLess(time.monotonic() - begin, support.GUARD_SECONDS / 2)


def interrupt_after(path):
    """Interrupts the main thread when a file exists."""
    if support.wait_until(lambda: os.path.exists(path)):
        signal.raise_signal(signal.SIGINT)


class Executors(support.TestCase):
    """Executors whose workers have URLs."""

    def test_workers_run_calls(self):
        executor = self.executor("shm:2")
        self.assertEqual(list(executor.map(abs, range(-5, 0))), [5, 4, 3, 2, 1])
        self.assertEqual(executor.function(tasks.same)([1]), [1])
        self.assertEqual(executor.submit(tasks.count_down, executor, 5).result(), 5)
        self.assertNotEqual(executor.submit(os.getpid).result(), os.getpid())

    def test_worker_that_ends_is_replaced(self):
        executor = self.executor("shm:2")
        with self.assertRaisesRegex(farcall.NodeFailed, r"exited with status 3 while it ran _exit; other workers"):
            executor.submit(os._exit, 3).result()
        with self.assertRaisesRegex(farcall.NodeFailed, "SIGKILL"):
            executor.submit(tasks.die).result()
        self.assertEqual([executor.submit(abs, -i).result() for i in range(20)], list(range(20)))

    def test_initializer_runs_in_each_worker(self):
        executor = self.executor("shm:2", initializer=tasks.initialise, initargs=("set",), preload=("colorsys",))
        self.assertEqual({executor.submit(tasks.status).result() for _ in range(10)}, {"set"})
        self.assertTrue(executor.submit(tasks.has_module, "colorsys").result())

    def test_initializer_that_fails_breaks_the_executor(self):
        executor = self.executor("shm", initializer=tasks.initialise, initargs=("fail",))
        with self.assertRaisesRegex(Exception, "no such status"):
            executor.submit(abs, -1).result()

    def test_output_of_workers_reaches_a_function(self):
        lines = []
        with farcall.Executor("shm", output=lambda *line: lines.append(line)) as executor:
            executor.submit(print, "printed").result()
        self.assertEqual(lines, [(1, 1, "printed")])

    def test_wrong_options_are_errors(self):
        self.assertRaisesRegex(TypeError, "'key' is only for workers with URLs", farcall.Executor, 1, key="file")
        self.assertRaisesRegex(TypeError, "unknown option 'colour'", farcall.Executor, "shm", colour=1)
        self.assertRaisesRegex(TypeError, "no options program", farcall.Executor, "shm", program="/bin/true")
        self.assertRaisesRegex(ValueError, "workers run Python", farcall.Executor, "shm?program=/bin/true")
        self.assertRaisesRegex(ValueError, "max_tasks_per_child", farcall.Executor, "shm", max_tasks_per_child=1)
        self.assertRaises(farcall.StartFailed, farcall.Executor, "tcp://127.0.0.1:1")

    def test_other_versions_of_python_are_refused(self):
        # The executor asks its worker for the versions of another interpreter.
        version = _core.version
        self.addCleanup(setattr, _core, "version", version)
        _core.version = "0.0.1"
        with self.assertRaisesRegex(farcall.StartFailed, f"with farcall {version}, and this program .* farcall 0.0.1"):
            farcall.Executor("shm")

    def test_servers_of_other_programs_are_refused(self):
        # The shell has no Python, and does not join.
        with self.assertRaises(farcall.StartFailed):
            farcall.Executor("exec:/bin/true")

    def test_workers_end_with_the_executor(self):
        executor = self.executor("shm:2")
        pids = {executor.submit(os.getpid).result() for _ in range(10)}
        executor.shutdown()
        self.assertTrue(support.wait_until(lambda: all(support.is_gone(pid) for pid in pids)))


class EndsDuringUse(support.TestCase):
    """Jobs that end while other threads use them."""

    def use_until_the_end(self, job, uses, seconds):
        """Ends the job after some time, while threads call the functions, which raise an error then."""
        began = threading.Barrier(len(uses) + 1)

        def call(use):
            began.wait()
            with self.assertRaisesRegex((RuntimeError, farcall.NodeFailed), "the job has ended|node 1"):
                while True:
                    use()

        threads = [threading.Thread(target=call, args=(use,)) for use in uses]
        for thread in threads:
            thread.start()
        began.wait()
        time.sleep(seconds)
        job.end()
        for thread in threads:
            thread.join()

    def test_copies_of_other_threads_end_before_the_job(self):
        for number in range(30):
            job = farcall.Job("shm:1")
            memory, data = job[1].allocate(1 << 20), bytearray(1 << 20)
            uses = [lambda: memory.put(data), memory.get, lambda: job[1].allocate(4096)]
            self.use_until_the_end(job, 2 * uses, 0.02 + 0.002 * number)

    def test_node_that_hangs_does_not_keep_the_job(self):
        job = farcall.Job("shm:1")
        support.stop(job[1].pid)
        began, errors = threading.Event(), []

        def allocate():
            began.set()
            try:
                job[1].allocate(100)
            except Exception as error:  # pylint: disable=broad-except
                errors.append(str(error))

        thread = threading.Thread(target=allocate)
        thread.start()
        began.wait()
        job.end()
        thread.join()
        self.assertRegex(errors[0], "the job has ended|node 1")


if __name__ == "__main__":
    support.main()
