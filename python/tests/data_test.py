# SPDX-License-Identifier: Apache-2.0
"""Tests of large arguments and results of calls, which pass through blocks of shared memory."""

import faulthandler
import os
import pickle
import random
import signal
import threading
import unittest

import data_tasks
import farcall
import support
import tasks
from farcall import _core

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")
LARGE = 64 * 1024  # the size from which on blocks are used
MIB = 1 << 20


def view_of(size, seed):
    """Returns an object that is pickled as an out-of-band buffer."""
    return pickle.PickleBuffer(bytearray(data_tasks.pattern(size, seed)))


class DataTest(support.TestCase):
    """Base of the tests."""

    def blocks(self, executor):
        """Returns the number of blocks in use at the host and in a worker."""
        return executor._pool.job.blocks()[0], executor.submit(data_tasks.blocks).result()[0]

    def assert_no_blocks(self, executor):
        """Waits until no block is in use any more."""
        self.assertTrue(support.wait_until(lambda: self.blocks(executor) == (0, 0)), self.blocks(executor))


class Values(DataTest):
    """Arguments and results arrive as they were."""

    def test_bytes_and_texts_arrive(self):
        executor = self.executor(1)
        call = executor.function(data_tasks.same)
        for size in (LARGE - 1, LARGE, LARGE + 1, 3 * MIB + 5):
            data = data_tasks.pattern(size, 1)
            text = "ä" + data.decode("latin-1")
            for value in (data, text, bytearray(data), (1, data, text), [data, 2.5, data]):
                for got in (call(value), executor.submit(data_tasks.same, value).result()):
                    self.assertIs(type(got), type(value))
                    self.assertTrue(got == value)
        self.assert_no_blocks(executor)

    def test_long_texts_are_told_from_other_arguments(self):
        call = self.executor(1).function(tasks.same)
        long = "text" * LARGE
        self.assertEqual(call(long, 1, b"y" * LARGE, None), (long, 1, b"y" * LARGE, None))
        self.assertEqual(call(long, [1], two=long), ((long, [1]), {"two": long}))
        self.assertEqual(call((long, b"z" * MIB)), (long, b"z" * MIB))

    def test_buffers_arrive_and_can_be_changed(self):
        executor = self.executor(1)
        for size in (0, 1, LARGE - 1, LARGE, 5 * MIB + 3):
            sent = data_tasks.pattern(size, 2)
            self.assertEqual(executor.submit(data_tasks.checksum, view_of(size, 2)).result(), data_tasks.checksum(sent))
            got = executor.submit(data_tasks.make, size, 2).result()
            self.assertEqual(bytes(got), sent)
            self.assertEqual(len(got), size)
            if size:
                got[0] ^= 255
                self.assertNotEqual(bytes(got), sent)
                self.assertEqual(executor.submit(data_tasks.invert_first, view_of(size, 2)).result(), 2 ^ 255)
            del got
        self.assert_no_blocks(executor)

    def test_buffers_can_be_sent_back_and_pickled(self):
        executor = self.executor(1)
        got = executor.submit(data_tasks.same, view_of(MIB, 4)).result()
        self.assertEqual(got, data_tasks.pattern(MIB, 4))
        self.assertEqual(pickle.loads(pickle.dumps(got, 5)), data_tasks.pattern(MIB, 4))
        self.assertEqual(got[3:5].tolist(), list(data_tasks.pattern(5, 4)[3:]))
        self.assertRaises(TypeError, got.__delitem__, 0)

    def test_tasks_pass_data_on_to_tasks(self):
        for workers in (1, 2):
            executor = self.executor(workers)
            for _ in range(4):
                self.assertEqual(executor.submit(data_tasks.pass_on, executor, view_of(MIB, 5)).result(),
                                 data_tasks.checksum(data_tasks.pattern(MIB, 5)))
                self.assertEqual(executor.submit(data_tasks.bytes_back, executor, MIB).result(),
                                 data_tasks.pattern(MIB, 3))
            self.assert_no_blocks(executor)

    def test_many_random_values_arrive(self):
        executor = self.executor(2)
        numbers = random.Random(7)
        for _ in range(20):
            values = [view_of(numbers.choice((10, LARGE - 1, LARGE, 3 * LARGE, MIB)), numbers.randrange(250))
                      for _ in range(numbers.randrange(1, 6))]
            sums = [data_tasks.checksum(value) for value in values]
            calls = [executor.submit(data_tasks.checksum, value) for value in values]
            self.assertEqual([call.result() for call in calls], sums)
            back = executor.submit(data_tasks.same, values).result()
            self.assertEqual([data_tasks.checksum(value) for value in back], sums)
        del back
        self.assert_no_blocks(executor)

    def test_messages_carry_the_data_if_memory_cannot_be_shared(self):
        executor = self.executor(1)
        executor.submit(data_tasks.share, False).result()
        _core.set_sharing(False)
        self.addCleanup(_core.set_sharing, True)
        data = data_tasks.pattern(3 * MIB, 6)
        self.assertTrue(executor.submit(data_tasks.same, data).result() == data)
        got = executor.submit(data_tasks.same, [view_of(3 * MIB, 6), "x" * MIB]).result()
        self.assertTrue(got == [data, "x" * MIB])
        self.assertEqual(executor._pool.job.blocks(), (0, 0, 0, 0))
        self.assertEqual(executor.submit(data_tasks.blocks).result(), (0, 0, 0, 0))

    @needs_numpy
    def test_numpy_arrays_arrive(self):
        executor = self.executor(1)
        square = numpy.arange(90_000.0).reshape(300, 300)
        for array in (square, square.T, numpy.asfortranarray(square), square[::2, ::3], square[:0], square[3:],
                      square.astype("c16"), square.astype(">i4"), numpy.array(["text"] * 9000),
                      numpy.array([{"a": 1}, None] * 40_000, object), square.astype([("a", "f8")])):
            got = executor.submit(data_tasks.same, array).result()
            numpy.testing.assert_array_equal(got, array)
            self.assertEqual((got.dtype, got.shape), (array.dtype, array.shape))
            self.assertTrue(got.flags.writeable)
        square.flags.writeable = False
        self.assertFalse(executor.submit(data_tasks.same, square).result().flags.writeable)

    @needs_numpy
    def test_workers_draw_different_numbers_after_a_preload(self):
        drawn = self.executor(3, preload=["numpy.random"]).broadcast(data_tasks.draw)
        self.assertEqual(len(set(drawn)), 3, drawn)

    @unittest.skipUnless(os.environ.get("FARCALL_LARGE_TESTS"), "needs 10 GiB of memory (set FARCALL_LARGE_TESTS)")
    def test_more_than_four_gib_arrive(self):
        faulthandler.dump_traceback_later(10 * support.GUARD_SECONDS, exit=True)
        executor = self.executor(1)
        size = (4 << 30) + 12345
        got = executor.submit(data_tasks.make_large, size).result()
        self.assertEqual((len(got), got[0], got[size - 1]), (size, 1, 2))
        self.assertEqual(executor.submit(data_tasks.ends_of, got).result(), (size, 1, 2))


class Lifetime(DataTest):
    """Blocks are used again, and freed when the last view of them goes."""

    def test_blocks_are_used_again(self):
        executor = self.executor(1)
        for i in range(30):
            self.assertEqual(executor.submit(data_tasks.checksum, view_of(MIB, i)).result(),
                             data_tasks.checksum(data_tasks.pattern(MIB, i)))
            executor.submit(data_tasks.make, MIB, i).result()
        self.assert_no_blocks(executor)
        self.assertLessEqual(executor._pool.job.blocks()[2], 2)
        self.assertLessEqual(executor.submit(data_tasks.blocks).result()[2], 3)

    def test_kept_values_keep_their_blocks(self):
        executor = self.executor(1)
        results = [executor.submit(data_tasks.make, MIB, i).result() for i in range(5)]
        executor.submit(data_tasks.keep, view_of(MIB, 9)).result()
        self.assertEqual(self.blocks(executor), (1, 5))
        for i, result in enumerate(results):
            self.assertEqual(data_tasks.checksum(result), data_tasks.checksum(data_tasks.pattern(MIB, i)))
        part = memoryview(results[2])[5:10]
        del results, result
        self.assertTrue(support.wait_until(lambda: self.blocks(executor) == (1, 1)))
        self.assertEqual(bytes(part), data_tasks.pattern(10, 2)[5:])
        del part
        executor.submit(data_tasks.forget).result()
        self.assert_no_blocks(executor)

    def test_free_blocks_have_a_limit(self):
        executor = self.executor(1)
        size = 160 * MIB
        results = [executor.submit(data_tasks.zeros, size).result() for _ in range(5)]
        del results
        self.assert_no_blocks(executor)
        free = executor.submit(data_tasks.blocks).result()
        self.assertLessEqual(free[3], 512 * MIB)
        self.assertGreaterEqual(free[3], size)

    def test_results_outlive_the_executor(self):
        with farcall.Executor(1) as executor:
            result = executor.submit(data_tasks.make, MIB, 3).result()
        self.assertEqual(result, data_tasks.pattern(MIB, 3))
        result[MIB - 1] = 7
        self.assertEqual(result[MIB - 1], 7)

    def test_results_outlive_a_killed_worker(self):
        executor = self.executor(1)
        pid = executor.submit(data_tasks.pid).result()
        result = executor.submit(data_tasks.make, MIB, 3).result()
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.wait_until(lambda: 1 not in executor._pool.job.alive()))
        self.assertEqual(result, data_tasks.pattern(MIB, 3))
        self.assertEqual(executor.submit(data_tasks.same, result).result(), result)

    def test_arguments_of_a_killed_worker_are_freed(self):
        executor = self.executor(1)
        with self.assertRaises(farcall.NodeFailed):
            executor.submit(data_tasks.keep_and_die, view_of(MIB, 1)).result()
        self.assert_no_blocks(executor)

    def test_arguments_that_cannot_be_read_are_freed(self):
        executor = self.executor(1)
        for _ in range(3):
            with self.assertRaisesRegex(LookupError, "not to be read"):
                executor.submit(data_tasks.same, [data_tasks.FailsWhenRead(), view_of(MIB, 1)]).result()
        self.assert_no_blocks(executor)

    def test_calls_that_a_busy_worker_returns_arrive(self):
        with support.TemporaryFolder() as folder:
            executor = self.executor(2)
            gate = os.path.join(folder, "gate")
            for _ in range(200):
                executor.submit(len, b"").result()
            waiting = executor.submit(data_tasks.wait_for, gate, b"")
            calls = [executor.submit(data_tasks.checksum, view_of(MIB, i)) for i in range(30)]
            self.assertEqual([call.result() for call in calls],
                             [data_tasks.checksum(data_tasks.pattern(MIB, i)) for i in range(30)])
            with open(gate, "w", encoding="ascii"):
                pass
            self.assertEqual(waiting.result(), 0)
            self.assert_no_blocks(executor)

    def test_results_that_nobody_reads_are_freed(self):
        def interrupt(*_):
            raise InterruptedError

        with support.TemporaryFolder() as folder:
            executor = self.executor(1)
            gate = os.path.join(folder, "gate")
            call = executor.function(data_tasks.wait_and_make)
            self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))
            begun = os.path.join(folder, "begun")

            def send():
                support.wait_until(lambda: os.path.exists(begun))
                os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=send)
            thread.start()
            self.assertRaises(InterruptedError, call, begun, gate, MIB)
            thread.join()
            with open(gate, "w", encoding="ascii"):
                pass
            self.assert_no_blocks(executor)

    def test_lack_of_memory_is_an_error_of_the_call(self):
        status, out, errors = support.run_program(f"""
            import os, pickle, sys
            os.environ["FARCALL_HEAP_BYTES"] = str(64 << 20)
            sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
            import farcall, data_tasks
            size = 70 << 20
            with farcall.Executor(1) as executor:
                for call in (lambda: executor.submit(len, bytes(size)).result(),
                             lambda: executor.function(len)(pickle.PickleBuffer(bytearray(size))),
                             lambda: executor.submit(data_tasks.zeros, size).result(),
                             lambda: executor.function(bytes)(size),
                             lambda: farcall.empty(size, "u1", executor[0]),
                             lambda: farcall.empty(size, "u1", executor)):
                    try:
                        call()
                    except MemoryError as error:
                        print("no space for" in str(error), end=" ")
                print(executor.submit(pow, 2, 3).result(), executor._pool.job.blocks())
            """)
        self.assertEqual((status, out, errors), (0, "True " * 6 + "8 (0, 0, 0, 0)\n", ""))

    def test_blocks_need_no_files(self):
        executor = self.executor(1)
        result = executor.submit(data_tasks.same, view_of(MIB, 1)).result()
        for pid in (os.getpid(), executor.submit(data_tasks.pid).result()):
            with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
                names = {line.split()[5] for line in file if len(line.split()) > 5}
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                try:
                    names.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
                except FileNotFoundError:
                    pass
            self.assertTrue(any(name.startswith("/memfd:farcall-") for name in names))
            self.assertEqual([name for name in names if "farcall" in name and name.startswith("/dev/shm")], [])
            self.assertEqual([name for name in names if "farcall-" in name and not name.startswith("/memfd:")], [])
        self.assertEqual(len(result), MIB)

    def test_forked_children_leave_blocks_to_the_parent(self):
        executor = self.executor(1)
        result = executor.submit(data_tasks.make, MIB, 3).result()
        pid = data_tasks.fork()
        if pid == 0:
            is_right = bytes(result) == data_tasks.pattern(MIB, 3)
            del result
            os._exit(0 if is_right else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(self.blocks(executor), (0, 1))
        self.assertEqual(result, data_tasks.pattern(MIB, 3))


if __name__ == "__main__":
    support.main()
