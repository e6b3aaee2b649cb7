# SPDX-License-Identifier: Apache-2.0
"""Stress tests: threads of a program call, kill and stop tasks of every kind at once, and programs end in any state.

All follows from seeds. FARCALL_TEST_SEED=N runs the rounds of one seed only. `./run soak` runs all rounds, and
`./run test` a fifth of them.
"""

import asyncio
import collections
import concurrent.futures
import functools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from unittest import mock

import actor_classes
import data_tasks
import farcall
import stress_tasks
import support
import tasks
from farcall import _pool

WAIT_SECONDS = 120
# Longer than the waits, so that a call whose stop is lost fails the test.
GRACE_SECONDS = 600
STATUS = 7
# Reasons that these tests give workers to end.
ENDS = re.compile(rf"was killed by SIGKILL|has exited with status {STATUS}\b|cannot be reached any more|has ended|"
                  "closed its control socket")
MIB = 1 << 20


def seeds(full):
    """Returns the seeds of all rounds, of a fifth of them, or only the seed that is in the environment."""
    if "FARCALL_TEST_SEED" in os.environ:
        return [int(os.environ["FARCALL_TEST_SEED"])]
    return range(support.stress_rounds(full))


class Client:
    """Thread of a program that calls tasks, and checks their results."""

    def __init__(self, executor, seed, is_calm):
        self.executor = executor
        self.random = random.Random(seed)
        self.is_calm = is_calm  # true if no worker ends
        self.errors = []
        self.done = collections.Counter()

    def run(self, count):
        """Runs operations, and notes the first error."""
        for _ in range(count):
            name, operation = self.random.choice(CALM if self.is_calm else ALL)
            try:
                operation(self)
                self.done[name] += 1
            except farcall.NodeFailed as error:
                if self.is_calm or not ENDS.search(str(error)):
                    self.note_error(name)
                    return
                self.done["calls of workers that have ended"] += 1
            except Exception:  # pylint: disable=broad-except
                self.note_error(name)
                return

    def note_error(self, name):
        """Notes the error of an operation, and prints it, because other operations may now hang."""
        self.errors.append(f"{name}: {traceback.format_exc()}")
        print(self.errors[-1], file=sys.stderr, flush=True)

    def expect(self, got, expected):
        """Checks a result."""
        if got != expected:
            raise AssertionError(f"{str(got)[:200]} is not {str(expected)[:200]}")

    def result_of(self, function, *arguments):
        """Returns the result of a call."""
        return self.executor.submit(function, *arguments).result(WAIT_SECONDS)

    # Operations that end no worker.

    def value(self):
        """Calls a function with several arguments."""
        number = self.random.getrandbits(70)
        self.expect(self.result_of(tasks.same, number, "text", None), (number, "text", None))

    def burst(self):
        """Makes many calls before it takes their results."""
        numbers = [self.random.randrange(1000) for _ in range(self.random.randrange(1, 300))]
        futures = [self.executor.submit(divmod, number, 7) for number in numbers]
        self.check_all(futures, [divmod(number, 7) for number in numbers])

    def check_all(self, futures, expected):
        """Checks all results, also after some calls have failed."""
        failed = None
        for future, value in zip(futures, expected):
            try:
                self.expect(future.result(WAIT_SECONDS), value)
            except farcall.NodeFailed as error:
                failed = error
        if failed is not None:
            raise failed

    def large(self):
        """Sends a large buffer."""
        data = data_tasks.pattern(self.random.randrange(1, 2 * MIB), self.random.randrange(250))
        self.expect(self.result_of(stress_tasks.checksum_of, data), data_tasks.checksum(data))

    def back(self):
        """Gets a large buffer."""
        size, seed = self.random.randrange(1, 2 * MIB), self.random.randrange(250)
        self.expect(bytes(self.result_of(stress_tasks.pattern_of, size, seed)), data_tasks.pattern(size, seed))

    def mapped(self):
        """Maps numbers."""
        count = self.random.randrange(5000)
        options = self.random.choice([{}, {"chunksize": 7}, {"buffersize": 50}, {"unordered": True}])
        got = list(self.executor.map(stress_tasks.square, range(count), timeout=WAIT_SECONDS, **options))
        self.expect(sorted(got), [number * number for number in range(count)])

    def dropped_map(self):
        """Reads only some results of a map()."""
        results = self.executor.map(stress_tasks.square, range(100_000), timeout=WAIT_SECONDS)
        self.expect([next(results) for _ in range(5)], [0, 1, 4, 9, 16])

    def frozen(self):
        """Calls a function that was sent before."""
        function = self.executor.function(divmod)
        for number in range(self.random.randrange(1, 50)):
            self.expect(function(number, 3), divmod(number, 3))

    def fails(self):
        """Gets an exception."""
        text = str(self.random.random())
        error = self.executor.submit(tasks.fail, text).exception(WAIT_SECONDS)
        self.raise_if_failed(error)
        self.expect((type(error), str(error)), (LookupError, text))

    def exits(self):
        """Gets the exception of sys.exit()."""
        error = self.executor.submit(sys.exit, STATUS).exception(WAIT_SECONDS)
        self.raise_if_failed(error)
        self.expect((type(error), error.code), (SystemExit, STATUS))

    @staticmethod
    def raise_if_failed(error):
        """Raises the error of a call whose worker has ended."""
        if isinstance(error, farcall.NodeFailed):
            raise error

    def unpicklable(self):
        """Sends an object that cannot be sent."""
        error = self.executor.submit(tasks.same, tasks.Unpicklable()).exception(WAIT_SECONDS)
        self.expect((type(error), "cannot be pickled" in str(error)), (TypeError, True))

    def holds_the_gil(self):
        """Calls an extension that holds the GIL."""
        if self.result_of(stress_tasks.hold_the_gil, self.random.random() / 50) == os.getpid():
            raise AssertionError("a task has run in the program")

    def threads(self):
        """Calls a task with threads."""
        count = self.random.randrange(20)
        self.expect(self.result_of(stress_tasks.sum_by_threads, count), sum(i * i for i in range(count)))

    def leaves_a_thread(self):
        """Calls a task that leaves a thread behind."""
        self.result_of(stress_tasks.leave_a_thread, self.random.random())

    def forks(self):
        """Calls a task that forks its worker."""
        self.expect(self.result_of(stress_tasks.fork_a_child, STATUS), STATUS)

    def forks_here(self):
        """Forks this program, which has threads."""
        pid = os.fork()
        if pid == 0:
            os._exit(STATUS)
        self.expect(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), STATUS)

    def nested(self):
        """Calls tasks that call tasks."""
        depth = self.random.randrange(30)
        self.expect(self.result_of(stress_tasks.count_down, self.executor, depth), depth)

    def nested_in_threads(self):
        """Calls a task whose threads call tasks."""
        count = self.random.randrange(10)
        self.expect(self.result_of(stress_tasks.call_from_threads, self.executor, count),
                    sum(i * i for i in range(count)))

    def actor(self):
        """Makes an actor, and calls its methods."""
        counter = self.executor.create(actor_classes.Counter)
        total = 0
        for number in range(self.random.randrange(30)):
            total += number
            self.expect(counter.add(number), total)
        futures = [counter.add.submit(1) for _ in range(20)]
        self.check_all(futures, range(total + 1, total + 21))
        if self.random.random() < 0.5:
            counter.close()

    def array(self):
        """Makes an array on a worker."""
        data = data_tasks.pattern(self.random.randrange(1, MIB), 3)
        with farcall.empty(len(data), "u1", self.executor[self.random.randrange(len(self.executor))]) as there:
            there.put(data)
            self.expect(self.result_of(stress_tasks.checksum_of, there), data_tasks.checksum(data))
            half = bytearray(len(data) // 2)
            there[:len(half)].get(half)
            self.expect(half, data[:len(half)])

    def awaits(self):
        """Awaits calls in an event loop."""
        async def work():
            calls = [self.executor.submit(stress_tasks.square, number) for number in range(50)]
            return await asyncio.wait_for(asyncio.gather(*calls), WAIT_SECONDS)

        self.expect(asyncio.run(work()), [number * number for number in range(50)])

    def callbacks(self):
        """Makes a call in the callback of another one."""
        got = concurrent.futures.Future()

        def go_on(future):
            error = future.exception()
            if error is not None:
                got.set_exception(error)
            else:
                chained = self.executor.submit(stress_tasks.square, future.result())
                chained.add_done_callback(lambda done: got.set_exception(done.exception()) if done.exception()
                                          else got.set_result(done.result()))

        self.executor.submit(stress_tasks.square, 3).add_done_callback(go_on)
        self.expect(got.result(WAIT_SECONDS), 81)

    def cancels(self):
        """Cancels calls that may have begun."""
        futures = [self.executor.submit(stress_tasks.square, number) for number in range(100)]
        for future in self.random.sample(futures, 50):
            future.cancel()
        kept = [(future, number * number) for number, future in enumerate(futures) if not future.cancelled()]
        self.check_all([future for future, _ in kept], [value for _, value in kept])

    def stops(self):
        """Stops a call, which its worker survives."""
        future = self.executor.submit(tasks.pid_after, "/no/such/file")
        while self.random.random() < 0.5 and not future.running():
            time.sleep(0)
        future.stop(GRACE_SECONDS)
        self.expect_stopped(future)

    def expect_stopped(self, future):
        """Checks that a call has ended as stopped."""
        try:
            got = future.result(WAIT_SECONDS)
        except concurrent.futures.CancelledError:
            return
        raise AssertionError(f"a stopped call has returned {got}")

    def late(self):
        """Makes a call that takes longer than it may."""
        future = self.executor.with_timeout(0.02).submit(tasks.pid_after, "/no/such/file")
        error = future.exception(WAIT_SECONDS)
        self.raise_if_failed(error)
        self.expect(type(error), farcall.Timeout)

    def drops_an_executor(self):
        """Makes an executor, and leaves its end to the interpreter."""
        future = farcall.Executor(1).submit(stress_tasks.square, 12)
        self.expect(future.result(WAIT_SECONDS), 144)

    # Operations after which calls fail.

    def kills(self):
        """Kills a worker."""
        pids = list(self.executor._pool.pids().values())
        if pids:
            try:
                os.kill(self.random.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def ends(self):
        """Calls tasks that end their worker."""
        call = self.random.choice([functools.partial(self.executor.submit, os._exit, STATUS),
                                   functools.partial(self.executor.submit, tasks.die),
                                   functools.partial(self.executor.submit, stress_tasks.end_behind_a_task,
                                                     self.executor, STATUS)])
        got = call().exception(WAIT_SECONDS)
        if not isinstance(got, farcall.NodeFailed):
            raise AssertionError(f"a call whose worker ends has ended with {got!r}")
        raise got

    def ends_in_a_function(self):
        """Calls a function that ends its worker, without a future."""
        try:
            got = self.executor.function(os._exit)(STATUS)
        except farcall.NodeFailed:
            raise
        raise AssertionError(f"os._exit() has returned {got}")

    def stops_what_cannot_be_stopped(self):
        """Stops a call that holds the GIL for ever."""
        future = self.executor.submit(stress_tasks.hold_the_gil_for_ever)
        future.stop(grace=self.random.random() / 20)
        self.expect_stopped(future)


_ENDING = ("kills", "ends", "ends_in_a_function", "stops_what_cannot_be_stopped")
_OTHER = ("run", "note_error", "expect", "result_of", "check_all", "raise_if_failed", "expect_stopped")
CALM = [(name, each) for name, each in vars(Client).items()
        if name[0] != "_" and callable(each) and name not in (*_OTHER, *_ENDING)]
ALL = [*CALM, *[(name, vars(Client)[name]) for name in _ENDING]]


class Mixed(support.TestCase):
    """Threads that use one executor in all ways at once."""

    GUARD = 540

    def run_round(self, seed):
        """Runs the clients of a seed, and returns how many operations of each kind were done."""
        choose = random.Random(seed)
        is_calm = seed % 3 == 0
        with farcall.Executor(choose.randint(1, 3), call_timeout=choose.choice([None, None, WAIT_SECONDS])) as executor:
            clients = [Client(executor, f"{seed} {i}", is_calm) for i in range(choose.randint(1, 4))]
            threads = [threading.Thread(target=client.run, args=(choose.randint(10, 40),)) for client in clients]
            first_pids = executor._pool.pids()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual([error for client in clients for error in client.errors], [])
            if is_calm:
                self.assertEqual(executor._pool.pids(), first_pids)
            # All workers are there again.
            self.assertTrue(support.wait_until(lambda: self.replies(executor)))
            pids = executor._pool.pids().values()
        self.assertTrue(support.wait_until(lambda: all(map(support.is_gone, pids))))
        return sum((client.done for client in clients), collections.Counter())

    @staticmethod
    def replies(executor):
        """True if each worker replies. A worker that has just been killed may fail its call."""
        try:
            return executor.broadcast(abs, -1) == [1] * len(executor)
        except farcall.NodeFailed:
            return False

    @mock.patch.object(_pool, "GRACE_SECONDS", GRACE_SECONDS)
    def test_all_operations_work_at_once(self):
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
        done = collections.Counter()
        for seed in seeds(200):
            with self.subTest(seed=seed):
                done += self.run_round(seed)
        self.assertTrue(support.wait_until(lambda: threading.active_count() <= 2), threading.enumerate())
        if "FARCALL_TEST_SEED" not in os.environ:
            self.assertEqual({name for name, _ in ALL} - set(done) - {"ends", "ends_in_a_function"}, set())
            self.assertGreater(done["calls of workers that have ended"], 0)


PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stress_program.py")


class Ends(support.TestCase):
    """Programs that end in any state, and in any way."""

    GUARD = 540

    def check(self, seed):
        """Runs the program of a seed, and returns the way in which it has ended and the states that it had."""
        process = subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", PROGRAM, str(seed)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, errors = process.communicate(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler prints the stacks
            self.fail(f"the program does not end:\n{process.communicate()[1]}")
        finally:
            leftovers = self.processes_of(process.pid)
            are_gone = support.wait_until(lambda: not self.processes_of(process.pid), 20)
            if not are_gone:
                for pid in self.processes_of(process.pid):
                    os.kill(pid, signal.SIGKILL)
        lines = out.splitlines()
        self.assertGreater(len(lines), 1, errors)
        way, status, traceback_of, *states = lines[0].split()
        self.assertEqual((process.returncode, errors.count("Traceback")), (int(status), int(traceback_of != "-")),
                         f"{lines}\n{errors}")
        if traceback_of == "-":
            self.assertEqual(errors, "", lines)
        else:
            self.assertRegex(errors, rf"(?m)^{traceback_of}\b", lines)
        self.assertEqual(lines[1:], ["ends"], lines)
        self.assertTrue(are_gone, f"{lines}: {leftovers}")
        return way, states

    @staticmethod
    def processes_of(session):
        """Returns the processes of a session that have not ended."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(words[3]) == session and words[0] != "Z":
                found.append(int(path.parent.name))
        return found

    def test_programs_end_in_any_state(self):
        ways, states = collections.Counter(), collections.Counter()
        for seed in seeds(150):
            with self.subTest(seed=seed):
                way, had = self.check(seed)
                ways[way] += 1
                states.update(had)
        if "FARCALL_TEST_SEED" not in os.environ:
            import stress_program

            self.assertEqual(set(ways), set(stress_program.WAYS))
            self.assertEqual(set(states), set(stress_program.STATES))


if __name__ == "__main__":
    support.main()
