# SPDX-License-Identifier: Apache-2.0
"""Tests of futures in event loops of asyncio."""

import asyncio
import concurrent.futures
import itertools
import os
import threading

import actor_classes
import farcall
import support
import tasks


def run(coroutine):
    """Runs a coroutine in a new loop, and returns its result."""
    return asyncio.run(asyncio.wait_for(coroutine, support.GUARD_SECONDS / 2))


async def turn_until(condition):
    """Lets the loop turn until a condition holds."""
    while not condition():
        await asyncio.sleep(0.002)


class WithFile(support.TestCase):
    """Test with a file for which calls wait."""

    def setUp(self):
        super().setUp()
        folder = support.TemporaryFolder()
        self.addCleanup(folder.cleanup)
        self.addCleanup(self.go)
        self.path = os.path.join(folder.name, "go")

    def go(self):
        """Ends calls that wait for the file."""
        open(self.path, "w", encoding="ascii").close()


class Awaiting(WithFile):
    """await."""

    def test_results_and_exceptions_arrive(self):
        async def work():
            for workers in (2, 0):
                async with farcall.Executor(workers) as executor:
                    self.assertEqual(await executor.submit(tasks.same, 3), 3)
                    with self.assertRaisesRegex(LookupError, "missing"):
                        await executor.submit(tasks.fail, "missing")
                    self.assertEqual(await executor.function(tasks.same).aio(1, two=2), ((1,), {"two": 2}))
                    counter = await executor.acreate(actor_classes.Counter)
                    self.assertEqual(await asyncio.gather(*[counter.add.aio(1) for _ in range(3)]), [1, 2, 3])
                    with self.assertRaisesRegex(LookupError, "begins at 0"):
                        await executor.acreate(actor_classes.Counter, -1)

        run(work())

    def test_many_calls_are_awaited_at_once(self):
        async def work():
            async with farcall.Executor(2) as executor:
                got = await asyncio.gather(*[executor.submit(tasks.same, i) for i in range(2000)])
                self.assertEqual(got, list(range(2000)))
                futures = [executor.submit(tasks.same, i) for i in range(500)]
                self.assertEqual([await future for future in futures], list(range(500)))
                for future in asyncio.as_completed([executor.submit(tasks.same, 7) for _ in range(50)]):
                    self.assertEqual(await future, 7)

        run(work())

    def test_results_of_futures_that_are_ready_arrive(self):
        values = [None, 1, (), (1, 2), ValueError("a result"), StopIteration(3), [4]]

        async def use():
            executor = self.executor(1)
            futures = [executor.submit(tasks.same, value) for value in values]
            failed, stopped = executor.submit(tasks.fail, "missing"), farcall.Future()
            farcall.wait([*futures, failed])
            stopped.cancel()
            self.assertEqual([repr(await future) for future in futures], [repr(value) for value in values])
            self.assertEqual(repr(await asyncio.gather(*futures)), repr(values))
            with self.assertRaisesRegex(LookupError, "missing"):
                await failed
            with self.assertRaises(asyncio.CancelledError):
                await stopped

        run(use())

    def test_one_future_may_be_awaited_twice(self):
        async def wait(future):
            return await future

        async def work():
            async with farcall.Executor(1) as executor:
                future = executor.submit(tasks.pid_after, self.path)
                waiting = [asyncio.ensure_future(wait(future)) for _ in range(2)]
                await asyncio.sleep(0.05)
                self.go()
                self.assertEqual(await asyncio.gather(*waiting), [executor[0].pid] * 2)
                self.assertEqual(await future, executor[0].pid)

        run(work())

    def test_other_tasks_run_during_a_long_call(self):
        async def work():
            async with farcall.Executor(1) as executor:
                call = asyncio.ensure_future(executor.submit(tasks.pid_after, self.path))
                for _ in range(100):
                    await asyncio.sleep(0)
                self.assertFalse(call.done())
                self.go()
                self.assertEqual(await call, executor[0].pid)

        run(work())

    def test_task_with_short_calls_lets_others_run(self):
        turns = []

        async def count():
            while True:
                turns.append(None)
                await asyncio.sleep(0)

        async def work():
            async with farcall.Executor(1) as executor:
                counting = asyncio.ensure_future(count())
                for i in range(1000):
                    self.assertEqual(await executor.submit(tasks.same, i), i)
                counting.cancel()

        run(work())
        self.assertGreater(len(turns), 20)

    def test_loop_wakes_up_once_for_all_that_are_ready(self):
        async def work():
            loop = asyncio.get_running_loop()
            async with farcall.Executor(1) as executor:
                futures = [executor.submit(tasks.pid_after, self.path) for _ in range(40)]
                waiting = asyncio.gather(*futures)
                for _ in range(100):
                    await asyncio.sleep(0)
                wake, wakes = loop.call_soon_threadsafe, []
                loop.call_soon_threadsafe = lambda *arguments: (wakes.append(None), wake(*arguments))
                self.go()
                concurrent.futures.wait(futures)  # the loop cannot turn meanwhile
                self.assertEqual(await waiting, [executor[0].pid] * 40)
                self.assertEqual(len(wakes), 1)
                del loop.call_soon_threadsafe

        run(work())

    def test_loops_of_several_threads_share_an_executor(self):
        executor = self.executor(2)
        got = []

        async def work(first):
            numbers = range(first, first + 300)
            got.append(await asyncio.gather(*[executor.submit(tasks.same, i) for i in numbers]) == list(numbers))
            for i in numbers:
                got.append(await executor.submit(tasks.same, i) == i)

        threads = [threading.Thread(target=run, args=(work(i * 1000),)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(got), all(got)), (903, True))

    def test_dead_worker_fails_its_own_calls_only(self):
        async def work():
            async with farcall.Executor(2) as executor:
                calls = [executor.submit_to(0, tasks.die), executor.submit_to(1, tasks.same, 1)]
                failure, value = await asyncio.gather(*calls, return_exceptions=True)
                self.assertIsInstance(failure, farcall.NodeFailed)
                self.assertEqual((value, await executor.submit_to(0, tasks.same, 2)), (1, 2))

        run(work())

    def test_task_of_a_worker_may_have_a_loop(self):
        executor = self.executor(1)
        self.assertEqual(executor.submit(actor_classes.sum_in_a_loop, executor, list(range(100))).result(), 4950)

    def test_functions_of_asyncio_take_executors_and_futures(self):
        async def work():
            loop = asyncio.get_running_loop()
            async with farcall.Executor(1) as executor:
                self.assertEqual(await loop.run_in_executor(executor, tasks.same, 3), 3)
                self.assertEqual(await asyncio.wrap_future(executor.submit(tasks.same, 4)), 4)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(executor.submit(tasks.pid_after, self.path), 0.05)
                self.go()

        run(work())

    def test_import_leaves_asyncio_alone(self):
        status, out, errors = support.run_program("import farcall, sys; print('asyncio' in sys.modules)")
        self.assertEqual((status, out, errors), (0, "False\n", ""))


class Cancelling(WithFile):
    """Cancelled tasks."""

    def test_cancelled_task_cancels_its_call(self):
        async def work():
            async with farcall.Executor(1) as executor:
                running = executor.submit(tasks.pid_after, self.path)
                await turn_until(running.running)
                pending = executor.submit(tasks.same, 1)
                task = asyncio.ensure_future(pending)
                await asyncio.sleep(0.02)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(pending.cancelled())
                self.go()
                self.assertEqual(await running, executor[0].pid)

        run(work())

    def test_cancelled_task_stops_a_call_that_runs(self):
        async def work():
            async with farcall.Executor(1) as executor:
                stopped = []
                running = executor.submit(tasks.pid_after, self.path)
                running.stop = lambda: stopped.append(True)
                task = asyncio.ensure_future(running)
                await asyncio.sleep(0.02)  # so that the task has begun
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(stopped, [True])
                self.go()

        run(work())

    def test_cancelled_future_cancels_the_task(self):
        async def work():
            async with farcall.Executor(1) as executor:
                running = executor.submit(tasks.pid_after, self.path)
                await turn_until(running.running)
                pending = executor.submit(tasks.same, 1)
                task = asyncio.ensure_future(pending)
                await asyncio.sleep(0.02)
                self.assertTrue(pending.cancel())
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.go()

        run(work())

    def test_loop_may_end_before_its_calls(self):
        executor = self.executor(1)
        futures = []

        async def work():
            futures.append(executor.submit(tasks.pid_after, self.path))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(futures[0]), 0.02)

        run(work())
        self.go()
        self.assertEqual(executor.submit(os.getpid).result(), executor[0].pid)


class Maps(support.TestCase):
    """amap()."""

    def test_results_come_in_order(self):
        async def work():
            for workers in (2, 0):
                async with farcall.Executor(workers) as executor:
                    for options in ({}, {"chunksize": 7}, {"buffersize": 3}):
                        got = [each async for each in executor.amap(pow, range(100), itertools.repeat(2), **options)]
                        self.assertEqual(got, [i * i for i in range(100)])

        run(work())

    def test_infinite_iterables_are_read_a_little_ahead(self):
        read = []

        def numbers():
            for i in itertools.count():
                read.append(i)
                yield i

        async def work():
            async with farcall.Executor(1) as executor:
                results = executor.amap(tasks.same, numbers(), buffersize=4)
                self.assertEqual([await anext(results) for _ in range(10)], list(range(10)))
                self.assertLess(len(read), 20)
                await results.aclose()

        run(work())

    def test_results_before_an_exception_are_given(self):
        async def work():
            async with farcall.Executor(1) as executor:
                results = executor.amap(divmod, [4, 6, 1, 8], [2, 3, 0, 4], chunksize=4)
                self.assertEqual([await anext(results), await anext(results)], [(2, 0), (2, 0)])
                with self.assertRaises(ZeroDivisionError) as caught:
                    await anext(results)
                self.assertIn("on node 1", caught.exception.__notes__[-1])

        run(work())

    def test_wrong_numbers_are_refused(self):
        executor = self.executor(1)
        self.assertRaises(ValueError, executor.amap, tasks.same, [1], chunksize=0)
        self.assertRaises(ValueError, executor.amap, tasks.same, [1], buffersize=0)


class Leaving(support.TestCase):
    """The end of `async with`."""

    def test_loop_turns_while_the_executor_ends(self):
        async def work():
            turns = 0
            with support.TemporaryFolder() as folder:
                path = os.path.join(folder, "go")

                async def end():
                    async with farcall.Executor(1) as executor:
                        future = executor.submit(tasks.pid_after, path)
                    return future

                ending = asyncio.ensure_future(end())
                for _ in range(50):
                    await asyncio.sleep(0)
                    turns += 1
                self.assertFalse(ending.done())
                open(path, "w", encoding="ascii").close()
                future = await ending
                self.assertTrue(future.done())
                self.assertTrue(support.is_gone(future.result()))

        run(work())

    def test_cancelled_block_ends_its_workers(self):
        pids = []

        async def work():
            async with farcall.Executor(1) as executor:
                pids.append(executor[0].pid)
                executor.submit(tasks.die, 0)  # sleeps
                await asyncio.sleep(60)

        async def cancel():
            task = asyncio.ensure_future(work())
            await turn_until(lambda: pids)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        run(cancel())
        self.assertTrue(support.wait_until(lambda: support.is_gone(pids[0])))


if __name__ == "__main__":
    support.main()
