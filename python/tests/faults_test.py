# SPDX-License-Identifier: Apache-2.0
"""Tests of workers, hosts and programs that end at bad times."""

import concurrent.futures
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import farcall
import support
import tasks


def wait_for_pid(path):
    """Returns the process ID that a task has written to a file."""
    if not support.wait_until(lambda: os.path.exists(path)):
        raise AssertionError(f"no task has written {path}")
    with open(path, encoding="ascii") as file:
        return int(file.read())


class DeadWorkers(support.TestCase):
    """A worker that ends fails its own calls only."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "pid")

    def test_killed_worker_fails_its_call_and_is_replaced(self):
        executor = self.executor(2)
        other = executor.submit(time.sleep, 0.3)
        call = executor.submit(tasks.note_and_sleep, self.path)
        pid = wait_for_pid(self.path)
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        with self.assertRaisesRegex(farcall.NodeFailed, f"pid {pid}. was killed by SIGKILL while it ran note_and"):
            call.result()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertIsNone(other.result())
        self.assertEqual(sorted(executor.map(abs, [-1, 2, -3])), [1, 2, 3])
        self.assertTrue(support.wait_until(lambda: len(executor._pool.pids()) == 2))
        self.assertNotIn(pid, executor._pool.pids().values())

    def test_errors_are_named_as_programs_name_them(self):
        for error in (farcall.NodeFailed, farcall.StartFailed, farcall.Timeout, farcall.Stopped):
            self.assertEqual(f"{error.__module__}.{error.__qualname__}", f"farcall.{error.__name__}")
            self.assertIs(pickle.loads(pickle.dumps(error)), error)

    def test_worker_whose_extension_holds_the_gil_is_alive(self):
        executor = self.executor(1)
        call = executor.submit(tasks.note_and_hold_the_gil, self.path, 3)
        next_call = executor.submit(os.getpid)
        self.assertEqual(call.result(), wait_for_pid(self.path))
        self.assertEqual(next_call.result(), wait_for_pid(self.path))

    def test_killed_worker_whose_extension_holds_the_gil_is_replaced(self):
        executor = self.executor(1)
        call = executor.submit(tasks.note_and_hold_the_gil, self.path)
        pid = wait_for_pid(self.path)
        os.kill(pid, signal.SIGKILL)
        with self.assertRaisesRegex(farcall.NodeFailed, "was killed by SIGKILL"):
            call.result(support.GUARD_SECONDS / 2)
        self.assertNotEqual(executor.submit(os.getpid).result(), pid)

    def test_workers_may_end_in_any_number_of_direct_calls(self):
        executor = self.executor(1)
        die, works = executor.function(os._exit), executor.function(divmod)
        for _ in range(10):
            self.assertEqual(works(9, 7), (1, 2))
            with self.assertRaises(farcall.NodeFailed):
                die(1)

    def test_all_calls_of_a_dead_worker_fail_soon(self):
        executor = self.executor(1)
        begin = time.monotonic()
        for _ in range(5):
            os.kill(executor.submit(os.getpid).result(), signal.SIGKILL)
            calls = [executor.submit(divmod, number, 7) for number in range(40)]
            for number, call in enumerate(calls):
                try:
                    self.assertEqual(call.result(), divmod(number, 7))
                except farcall.NodeFailed as error:
                    self.assertIn("was killed by SIGKILL", str(error))
        self.assertLess(time.monotonic() - begin, 20)

    def test_executors_leave_no_descriptors(self):
        def use():
            with farcall.Executor(3) as executor:
                executor.submit(abs, 1).result()
        use()
        before = len(os.listdir("/proc/self/fd"))
        use()
        self.assertTrue(support.wait_until(lambda: len(os.listdir("/proc/self/fd")) == before))

    def test_crash_and_exit_are_told(self):
        executor = self.executor(1)
        for function, argument, text in ((tasks.die, signal.SIGSEGV, "SIGSEGV"), (os._exit, 3, "exited with status 3")):
            with self.assertRaisesRegex(farcall.NodeFailed, text) as caught:
                executor.submit(function, argument).result()
            self.assertGreater(caught.exception.node, 0)
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_function_fails_if_its_worker_dies(self):
        executor = self.executor(1)
        with self.assertRaises(farcall.NodeFailed):
            executor.function(tasks.die)()
        self.assertEqual(executor.function(tasks.same)(1), 1)

    def test_idle_worker_that_dies_is_replaced(self):
        executor = self.executor(1)
        pid = executor.submit(os.getpid).result()
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.wait_until(lambda: pid not in executor._pool.pids().values()))
        self.assertNotEqual(executor.submit(os.getpid).result(), pid)

    def test_calls_return_from_workers_that_end_after_shutdown(self):
        executor = farcall.Executor(1)
        farcall.wait([executor.submit(tasks.same, number) for number in range(3000)])  # now it gets many at a time
        pool = executor._pool
        (node, pid), = pool.pids().items()
        support.stop(pid)
        calls = [executor.submit(tasks.same, number) for number in range(40)]
        executor.shutdown(wait=False)
        # The thread of the pool may notice the end before it gets the calls back.
        pool._taken.append((None, node, 2, None))
        pool._wake()
        self.assertTrue(support.wait_until(lambda: pool.worker_at(0) is None or pool.worker_at(0).node != node))
        os.kill(pid, signal.SIGKILL)
        self.assertEqual([call.result(support.GUARD_SECONDS / 2) for call in calls], list(range(40)))
        executor.shutdown()

    def test_returned_calls_are_cancelled_after_kill_workers(self):
        executor = farcall.Executor(1)
        farcall.wait([executor.submit(tasks.same, number) for number in range(3000)])
        go_on = threading.Event()
        first = executor.submit(tasks.same_after, self.path + ".first", 1)
        first.add_done_callback(lambda _: go_on.wait(support.GUARD_SECONDS / 2))  # stops the thread of the pool
        long = executor.submit(tasks.sleep_stubbornly, self.path)
        waiting = [executor.submit(tasks.same, number) for number in range(40)]
        tasks.note(self.path + ".first")
        wait_for_pid(self.path)
        long.stop(grace=support.GUARD_SECONDS)  # asks the worker to return the other calls
        wait_for_pid(self.path + ".interrupted")
        time.sleep(0.2)  # for their return; without it, the test finds less
        executor.kill_workers()
        go_on.set()
        ended = threading.Thread(target=executor.shutdown)
        ended.start()
        ended.join(support.GUARD_SECONDS / 2)
        self.assertFalse(ended.is_alive())
        for call in [long, *waiting]:
            self.assertTrue(call.cancelled() or isinstance(call.exception(), (farcall.NodeFailed, type(None))))

    def test_ended_worker_gets_one_call_at_a_time(self):
        executor = self.executor(1)
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        first = executor.submit(tasks.same_after, self.path, 1)
        first.add_done_callback(lambda _: go_on.wait(support.GUARD_SECONDS / 2))  # stops the thread of the pool
        pool = executor._pool
        (node, pid), = pool.pids().items()
        tasks.note(self.path)
        self.assertEqual(first.result(), 1)
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.wait_until(lambda: node not in pool.job.alive()))
        self.assertFalse(pool.job.track(node))  # so that no more calls seem to have begun there

    def test_all_of_many_calls_of_an_actor_fail(self):
        executor = self.executor(1)
        for _ in range(5):
            actor = executor.create(tasks.Waits)
            calls = [actor.wait_for_ever.submit(self.path) for _ in range(1000)]
            os.kill(wait_for_pid(self.path), signal.SIGKILL)
            os.remove(self.path)
            for call in calls:
                self.assertIsInstance(call.exception(support.GUARD_SECONDS / 4), farcall.NodeFailed)

    def test_many_deaths_fail_only_the_calls_that_ran(self):
        executor = self.executor(2)
        futures = [executor.submit(tasks.die) if i % 5 == 0 else executor.submit(tasks.same, i) for i in range(30)]
        for i, future in enumerate(futures):
            if i % 5 == 0:
                self.assertRaises(farcall.NodeFailed, future.result)
            else:
                self.assertEqual(future.result(), i)

    def test_calls_behind_a_call_that_dies_run_once(self):
        executor = self.executor(1)
        farcall.wait([executor.submit(tasks.same, number) for number in range(200)])
        for round_number in range(6):
            before = [executor.submit(tasks.append, self.path, number) for number in range(30)]
            dies = executor.submit(tasks.die)
            after = [executor.submit(tasks.append, self.path, number) for number in range(30, 60)]
            if round_number % 2 == 1:
                pow(3, 3_000_000)  # holds the GIL, so that the results are taken after the worker has ended
            self.assertRaises(farcall.NodeFailed, dies.result)
            self.assertEqual([each.result() for each in before + after], list(range(60)))
            with open(self.path, encoding="ascii") as file:
                self.assertEqual(sorted(int(line) for line in file), list(range(60)))
            os.remove(self.path)

    def test_reason_of_a_slow_end_is_told(self):
        executor = self.executor(1)
        with self.assertRaisesRegex(farcall.NodeFailed, "has exited with status 7"):
            executor.submit(tasks.end_slowly, 2.0, 7).result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_task_that_raises_node_failed_keeps_its_worker(self):
        executor = self.executor(1)
        pid = executor.submit(os.getpid).result()
        with self.assertRaisesRegex(farcall.NodeFailed, "raised by a task"):
            executor.submit(tasks.raise_node_failed).result()
        self.assertEqual(executor.submit(os.getpid).result(), pid)

    def test_callbacks_of_failed_calls_run(self):
        executor = self.executor(1)
        failed = executor.submit(tasks.die)
        errors = []
        failed.add_done_callback(lambda future: errors.append(future.exception()))
        farcall.wait([failed])
        self.assertTrue(support.wait_until(lambda: errors))
        self.assertIsInstance(errors[0], farcall.NodeFailed)

    def test_callback_of_a_failed_call_may_call_again(self):
        executor = self.executor(1)
        got = concurrent.futures.Future()
        executor.submit(tasks.die).add_done_callback(lambda _: got.set_result(executor.function(tasks.same)(5)))
        self.assertEqual(got.result(support.GUARD_SECONDS / 2), 5)

    def test_tasks_of_tasks_fail_with_their_worker(self):
        executor = self.executor(2)
        with self.assertRaises(farcall.NodeFailed):
            executor.submit(tasks.run_nested, executor).result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_dead_zygote_is_replaced(self):
        executor = self.executor(1)
        call = executor.submit(tasks.note_and_sleep, self.path)
        wait_for_pid(self.path)
        os.kill(executor._pool._zygote.pid, signal.SIGKILL)
        with self.assertRaises(farcall.NodeFailed):
            call.result()
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)


PROGRAM = """\
import os, sys, time
sys.path.insert(0, sys.argv[1])
import farcall, tasks
executor = farcall.Executor(2)
print(executor._pool._zygote.pid, *executor._pool.pids().values(), flush=True)
"""


class Program:
    """A program in a process group of its own, with two workers."""

    def __init__(self, action):
        text = PROGRAM + textwrap.dedent(action)
        folder = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, folder],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.pids = [int(pid) for pid in self.process.stdout.readline().split()]

    def are_gone(self):
        """True if the zygote and the workers have ended."""
        return all(support.is_gone(pid) for pid in self.pids)

    def finish(self):
        """Waits for the end of the program, and returns the rest of its output, and its errors."""
        out = self.process.stdout.read()  # unlike communicate(), with what was read ahead
        return out, self.process.communicate()[1]

    def close(self):
        """Ends the program."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


class Hosts(support.TestCase):
    """Programs that end leave no process."""

    def program(self, action):
        """Starts a program."""
        made = Program(action)
        self.addCleanup(made.close)
        self.assertEqual(len(made.pids), 3)
        return made

    def test_killed_host_leaves_no_process(self):
        program = self.program("executor.submit(time.sleep, 300); time.sleep(300)")
        program.process.kill()
        program.process.wait()
        self.assertTrue(support.wait_until(program.are_gone, 10))

    def test_normal_end_leaves_no_process(self):
        program = self.program("executor.submit(print, 'a task has run')")
        out, errors = program.finish()
        self.assertEqual((program.process.returncode, out, errors), (0, "a task has run\n", ""))
        self.assertTrue(support.wait_until(program.are_gone, 10))

    def test_exit_without_cleanup_leaves_no_process(self):
        program = self.program("executor.submit(time.sleep, 300); os._exit(0)")
        program.process.wait()
        self.assertTrue(support.wait_until(program.are_gone, 10))

    def test_interrupt_ends_the_program_at_once(self):
        actions = ("executor.submit(time.sleep, 300).result()", "executor.function(time.sleep)(300)",
                   "farcall.wait([executor.submit(time.sleep, 300)])", "list(executor.map(time.sleep, [300]))")
        for action, block in itertools.product(actions, ("with executor:", "if True:")):
            program = self.program(f"{block}\n    print('ready', flush=True)\n    {action}")
            self.assertEqual(program.process.stdout.readline(), "ready\n")
            time.sleep(0.1)  # for the wait to begin; the test is weaker, but not wrong, if it has not
            begin = time.monotonic()
            os.killpg(program.process.pid, signal.SIGINT)
            _, errors = program.finish()
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(errors.count("Traceback"), 1, errors)
            self.assertIn("KeyboardInterrupt", errors)
            self.assertTrue(support.wait_until(program.are_gone, 10))

    def test_executor_works_after_an_interrupt(self):
        program = self.program("""
    try:
        with executor:
            print("ready", flush=True)
            executor.submit(time.sleep, 300).result()
    except KeyboardInterrupt:
        print(farcall.Executor(1).submit(pow, 2, 5).result())
""")
        self.assertEqual(program.process.stdout.readline(), "ready\n")
        os.killpg(program.process.pid, signal.SIGINT)
        out, errors = program.finish()
        self.assertEqual((out, errors), ("32\n", ""))

    def test_program_may_lack_output(self):
        status, _, errors = support.run_program("""
            import os
            os.close(1)
            import farcall
            with farcall.Executor(1) as executor:
                executor.submit(abs, -1).result()
            """)
        self.assertEqual((status, errors), (0, ""))

    def test_forked_child_of_a_host_may_exit(self):
        program = self.program("""
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    print(os.waitpid(pid, 0)[1], executor.submit(pow, 2, 5).result())
""")
        out, errors = program.finish()
        self.assertEqual((out, errors), ("0 32\n", ""))

    def test_forked_child_may_use_locks_that_another_thread_holds(self):
        status, out, errors = support.run_program("""
            import asyncio, os, signal, threading, warnings
            import farcall
            from farcall import _actors, _asyncio, _future

            held, done = threading.Event(), threading.Event()
            def hold():
                with _future._states, _actors._lock, _asyncio._lock:
                    held.set()
                    done.wait()
            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                with farcall.Executor(1) as executor:
                    future = executor.submit(pow, 2, 3)
                    future.add_done_callback(print)
                    async def wait():
                        return await executor.submit(pow, 2, 4)
                    print(asyncio.run(wait()), executor.create(list), flush=True)
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            done.set()
        """)
        self.assertEqual((status, out.splitlines()[-1:], errors), (0, ["0"], ""))

    def test_idle_processes_use_no_processor(self):
        program = self.program("executor.submit(pow, 2, 5).result(); print('ready', flush=True); time.sleep(300)")
        program.process.stdout.readline()
        time.sleep(0.2)  # for spinning to end
        pids = [program.process.pid, *program.pids]
        before = [ticks_of(pid) for pid in pids]
        time.sleep(1)
        self.assertLessEqual(max(after - old for after, old in zip(map(ticks_of, pids), before)), 2)


def ticks_of(pid):
    """Returns the processor time of a process, in hundredths of a second."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Interpreter(support.TestCase):
    """The end of the interpreter."""

    def test_calls_end_before_the_interpreter(self):
        status, out, errors = support.run_program("""
            import farcall, time
            executor = farcall.Executor(2)
            executor.submit(time.sleep, 0.2).add_done_callback(lambda future: print("done"))
            executor.shutdown(wait=False)
        """)
        self.assertEqual((status, out, errors), (0, "done\n", ""))

    def test_other_interpreters_of_the_process_are_refused(self):
        interpreters = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
        status, out, errors = support.run_program(f"""
            import {interpreters} as interpreters
            import farcall

            code = "try:\\n from farcall import Executor\\nexcept ImportError as error:\\n print(error)"
            interpreters.run_string(interpreters.create(), code)
            with farcall.Executor(1) as executor:
                print(executor.submit(pow, 2, 3).result())
        """)
        # Each interpreter has a buffer of its own, and writes it when it ends.
        refusal, result = sorted(out.splitlines(), reverse=True)
        self.assertEqual((status, result, errors), (0, "8", ""))
        self.assertIn("subinterpreter", refusal)

    def test_calls_at_the_end_of_the_interpreter_are_refused(self):
        status, out, errors = support.run_program("""
            import atexit, farcall
            @atexit.register
            def late():
                try:
                    executor.submit(id, None)
                except RuntimeError as error:
                    print(error)
            executor = farcall.Executor(2)
        """)
        self.assertEqual((status, out, errors), (0, "cannot schedule new futures after interpreter shutdown\n", ""))

    def test_executors_made_in_atexit_are_refused(self):
        status, out, errors = support.run_program("""
            import atexit, farcall
            @atexit.register
            def late():
                for make in (farcall.Executor, farcall.Job, farcall.spmd):
                    try:
                        make()
                    except RuntimeError as error:
                        print(error)
                print(farcall.Executor(0).submit(abs, -1).result())
        """)
        text = "cannot be made at the end of the program, for instance in a function of atexit; make it before"
        self.assertEqual((status, out.splitlines(), errors),
                         (0, [f"an Executor {text}", f"a Job {text}", f"a Job {text}", "1"], ""))


if __name__ == "__main__":
    support.main()
