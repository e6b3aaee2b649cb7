# SPDX-License-Identifier: Apache-2.0
"""Tests of calls on given workers, and of actors."""

import asyncio
import concurrent.futures
import copy
import logging
import os
import signal
import threading

import actor_classes
import farcall
import support
import tasks
from actor_classes import Counter, Resource


class Places(support.TestCase):
    """submit_to(), broadcast(), executor[i], and functions that have a number."""

    def test_calls_run_on_the_given_worker(self):
        executor = self.executor(3)
        pids = executor.broadcast(os.getpid)
        self.assertEqual(len(set(pids)), 3)
        for i in (0, 1, 2, -1):
            self.assertEqual({executor.submit_to(i, os.getpid).result() for _ in range(5)}, {pids[i]})
            self.assertEqual(executor[i].submit(os.getpid).result(), pids[i])
            self.assertEqual(executor[i].pid, pids[i])
            self.assertEqual(executor.submit_to(executor[i], tasks.same, 1, two=2).result(), ((1,), {"two": 2}))
        self.assertRaises(IndexError, executor.submit_to, 3, os.getpid)
        self.assertEqual([place.pid for place in executor], pids)

    def test_replacement_takes_over_the_place_and_its_calls(self):
        executor = self.executor(2)
        before = executor[1].pid
        dying = executor.submit_to(1, tasks.die)
        waiting = [executor.submit_to(1, os.getpid) for _ in range(5)]
        self.assertRaises(farcall.NodeFailed, dying.result)
        # Calls that the dead worker had got fail with it, and the others run on the new one.
        pids = {future.result() for future in waiting if future.exception() is None}
        pids.add(executor.submit_to(1, os.getpid).result())
        self.assertEqual(pids, {executor[1].pid})
        self.assertNotEqual(executor[1].pid, before)

    def test_calls_wait_for_their_worker_beside_free_ones(self):
        executor = self.executor(2)
        pid = executor[0].pid
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            long = executor.submit_to(0, tasks.pid_after, path)
            others = [executor.submit_to(0, os.getpid) for _ in range(20)]
            self.assertNotEqual(executor.submit_to(1, os.getpid).result(), pid)
            self.assertFalse(any(other.done() for other in others))
            open(path, "w", encoding="ascii").close()
            self.assertEqual({other.result() for other in [long, *others]}, {pid})

    def test_pending_call_of_a_given_worker_can_be_cancelled(self):
        executor = self.executor(1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            running, pending = (executor.submit_to(0, tasks.pid_after, path) for _ in range(2))
            self.assertTrue(support.wait_until(running.running))
            self.assertTrue(pending.cancel())
            open(path, "w", encoding="ascii").close()
            self.assertGreater(running.result(), 0)

    def test_shutdown_runs_or_cancels_the_calls_of_given_workers(self):
        executor = farcall.Executor(1)
        futures = [executor.submit_to(0, tasks.same, i) for i in range(200)]
        executor.shutdown()
        self.assertEqual([future.result() for future in futures], list(range(200)))
        executor = farcall.Executor(1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            running, pending = executor.submit_to(0, tasks.pid_after, path), executor.submit_to(0, tasks.same, 1)
            self.assertTrue(support.wait_until(running.running))
            executor.shutdown(wait=False, cancel_futures=True)
            open(path, "w", encoding="ascii").close()
            self.assertTrue(pending.cancelled())
            self.assertGreater(running.result(), 0)

    def test_given_workers_are_replaced_after_their_last_task(self):
        executor = self.executor(1, max_tasks_per_child=2)
        pids = [executor.submit_to(0, os.getpid).result() for _ in range(6)]
        self.assertEqual([pids[0] == pids[1], pids[1] == pids[2], len(set(pids))], [True, False, 3])

    def test_broadcast_raises_the_exception_of_a_worker(self):
        self.assertRaisesRegex(LookupError, "missing", self.executor(2).broadcast, tasks.fail, "missing")

    def test_numbered_function_has_futures(self):
        for executor in (self.executor(1), self.executor(0)):
            call = executor.function(tasks.same)
            self.assertEqual([call.submit(i).result() for i in range(3)], [0, 1, 2])
            self.assertRaises(LookupError, executor.function(tasks.fail).submit("missing").result)
        self.assertRaisesRegex(TypeError, "cannot be pickled",
                               self.executor(1).function(tasks.same).submit(tasks.Unpicklable()).result)

    def test_task_knows_the_number_of_workers(self):
        executor = self.executor(3)
        self.assertEqual(executor.broadcast(actor_classes.number_of_workers, executor), [3, 3, 3])

    def test_task_cannot_choose_workers(self):
        executor = self.executor(1)
        with self.assertRaisesRegex(RuntimeError, "a task cannot choose workers"):
            executor.submit(farcall.Executor.submit_to, executor, 0, tasks.same).result()

    def test_executor_without_workers_has_one_place(self):
        executor = self.executor(0)
        self.assertEqual(executor.submit_to(0, os.getpid).result(), os.getpid())
        self.assertEqual((executor.broadcast(os.getpid), executor[0].pid), ([os.getpid()], os.getpid()))


class Calls(support.TestCase):
    """Calls of methods."""

    def test_methods_change_the_object(self):
        for executor in (self.executor(2), self.executor(0)):
            counter = executor.create(Counter, n=1)
            self.assertEqual(counter.add(5), 6)
            self.assertEqual(counter.add.submit(k=1).result(), 7)
            counter.add.post(1)
            self.assertEqual((counter.add(0), counter.n, counter.double, counter.limit), (8, 8, 16, 100))

    def test_calls_of_a_thread_begin_in_their_order(self):
        counter = self.executor(2).create(Counter)
        futures = []
        for i in range(0, 900, 3):
            futures.append(counter.add.submit(i))
            counter.add.post(i + 1)
            counter.add(i + 2)
        self.assertEqual(counter.seen, list(range(900)))
        self.assertEqual(futures[1].result(), 0 + 1 + 2 + 3)

    def test_calls_keep_their_order_beside_a_busy_worker(self):
        executor = self.executor(2)
        farcall.wait([executor.submit(tasks.same, i) for i in range(3000)])
        counter = executor.create(Counter, node=0)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            blocked = counter.wait_for.submit(path)
            calls, others = [], []
            for i in range(200):
                calls.append(counter.add.submit(i))
                others.append(executor.submit(os.getpid))
            # Tasks move to the free worker, and the calls of the actor stay.
            self.assertEqual({other.result() for other in others}, {executor[1].pid})
            self.assertFalse(any(call.done() for call in calls))
            open(path, "w", encoding="ascii").close()
            self.assertEqual(blocked.result(), 0)
            self.assertEqual([call.result() for call in calls], [sum(range(i + 1)) for i in range(200)])

    def test_blocked_actor_does_not_block_others(self):
        executor = self.executor(2)
        first, second = executor.create(Counter, node=0), executor.create(Counter, node=1)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            blocked = first.wait_for.submit(path)
            self.assertEqual(second.add(1), 1)
            self.assertFalse(blocked.done())
            open(path, "w", encoding="ascii").close()
            self.assertEqual(blocked.result(), 0)

    def test_threads_run_several_calls_at_once(self):
        executor = self.executor(1)
        counter = executor.create(Counter, threads=2)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            blocked = counter.wait_for.submit(path)
            self.assertEqual(counter.add(2), 2)
            self.assertRegex(counter.thread(), "farcall-Counter-[01]")
            self.assertEqual(executor.submit(tasks.thread_name).result(), "MainThread")
            self.assertFalse(blocked.done())
            open(path, "w", encoding="ascii").close()
            self.assertEqual(blocked.result(), 2)
        self.assertRaises(LookupError, counter.fail, "missing")
        self.assertRaises(ValueError, executor.create, Counter, threads=0)

    def test_stop_interrupts_threads_of_an_actor(self):
        counter = self.executor(1).create(Counter, threads=2)
        with support.TemporaryFolder() as folder:
            for i in range(3):
                path = os.path.join(folder, str(i))
                future = counter.note_and_compute.submit(path)
                self.assertTrue(support.wait_until(lambda path=path: os.path.exists(path)))
                self.assertTrue(future.stop(grace=support.GUARD_SECONDS))
                self.assertRaises(farcall.CancelledError, future.result)
                self.assertEqual(counter.add(1), i + 1)

    def test_one_thread_keeps_the_order(self):
        counter = self.executor(1).create(Counter, threads=1)
        for i in range(300):
            counter.add.post(i)
        self.assertEqual(counter.seen, list(range(300)))

    def test_actors_are_spread_over_workers(self):
        executor = self.executor(3)
        actors = [executor.create(Counter) for _ in range(6)]
        pids = [actor.pid() for actor in actors]
        self.assertEqual({pid: pids.count(pid) for pid in pids}, dict.fromkeys(executor.broadcast(os.getpid), 2))
        self.assertEqual(executor.create(Counter, node=2).pid(), executor[2].pid)
        self.assertEqual(executor.create(Counter, node=executor[1]).pid(), executor[1].pid)

    def test_method_is_a_function_for_map_and_submit(self):
        executor = self.executor(2)
        counter = executor.create(Counter)
        self.assertEqual(sorted(executor.map(counter.add, [1] * 10, chunksize=5)), list(range(1, 11)))
        self.assertEqual(executor.submit(counter.add, 5).result(), 15)

    def test_many_threads_may_use_an_actor(self):
        counter = self.executor(2).create(Counter)
        threads = [threading.Thread(target=lambda: [counter.add(1) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counter.n, 800)

    def test_objects_that_cannot_be_pickled_may_be_actors(self):
        actor = self.executor(1).create(actor_classes.Unpicklable)
        self.assertEqual(actor.add(3), 3)
        self.assertRaisesRegex(TypeError, "pickle", farcall.get, actor)

    def test_get_returns_a_copy(self):
        for executor in (self.executor(1), self.executor(0)):
            counter = executor.create(Counter, 3)
            got = farcall.get(counter)
            self.assertIsInstance(got, Counter)
            got.n = 100
            self.assertEqual(counter.n, 3)
        self.assertRaises(TypeError, farcall.get, 3)

    @support.needs_cloudpickle
    def test_class_of_the_main_program_may_be_an_actor(self):
        status, out, errors = support.run_program("""
            import farcall
            class Greeter:
                def greet(self, name): return "hello " + name
            with farcall.Executor(1) as executor:
                print(executor.create(Greeter).greet("you"))
        """)
        self.assertEqual((status, out, errors), (0, "hello you\n", ""))


class Errors(support.TestCase):
    """Exceptions, and names that cannot be used."""

    def test_error_of_the_constructor_is_raised(self):
        for executor in (self.executor(1), self.executor(0)):
            self.assertRaisesRegex(LookupError, "begins at 0", executor.create, Counter, -1)

    def test_exception_of_a_method_is_like_others(self):
        counter = self.executor(1).create(Counter)
        for call in (counter.fail, lambda text: counter.fail.submit(text).result()):
            with self.assertRaises(LookupError) as caught:
                call("missing")
            self.assertIn("raise LookupError(text)", str(caught.exception.__cause__))
            self.assertIn("on node 1 (pid ", caught.exception.__notes__[-1])
        self.assertEqual(counter.add(1), 1)

    def test_exception_of_post_is_logged(self):
        for executor in (self.executor(1), self.executor(0)):
            counter = executor.create(Counter)
            logged = threading.Event()
            records = []

            class Handler(logging.Handler):
                """Notes records."""

                def emit(self, record):
                    records.append(record)
                    logged.set()

            handler = Handler()
            logging.getLogger("farcall").addHandler(handler)
            self.addCleanup(logging.getLogger("farcall").removeHandler, handler)
            counter.fail.post("missing")
            self.assertTrue(logged.wait(support.GUARD_SECONDS / 2))
            self.assertEqual(repr(records[0].exc_info[1]), "LookupError('missing')")
            logging.getLogger("farcall").removeHandler(handler)

    def test_wrong_names_are_attribute_errors(self):
        for executor in (self.executor(1), self.executor(0)):
            counter = executor.create(Counter)
            self.assertRaises(AttributeError, lambda: counter.missing)
            self.assertRaises(AttributeError, lambda: counter._private)
            self.assertFalse(hasattr(counter, "__array__"))
            with self.assertRaisesRegex(AttributeError, "can only be read"):
                counter.n = 5

    def test_arguments_that_cannot_be_sent_are_errors(self):
        counter = self.executor(1).create(Counter)
        self.assertRaises(TypeError, counter.add, tasks.Unpicklable())
        self.assertRaises(TypeError, counter.add.submit(tasks.Unpicklable()).result)

    def test_dead_worker_fails_each_later_call_with_the_reason(self):
        executor = self.executor(2)
        counter, other = executor.create(Counter, node=0), executor.create(Counter, node=1)
        pid = counter.pid()
        reason = rf"node 1 \(pid {pid}\) was killed by SIGKILL"
        self.assertRaisesRegex(farcall.NodeFailed, reason, counter.die)
        for _ in range(2):
            for call in (counter.add, lambda k: counter.add.submit(k).result(), lambda k: counter.n):
                with self.assertRaisesRegex(farcall.NodeFailed, reason) as caught:
                    call(1)
                self.assertEqual(caught.exception.node, 1)
            # The worker is replaced meanwhile.
            self.assertNotEqual(executor.submit_to(0, os.getpid).result(), pid)
        self.assertEqual(other.add(1), 1)
        self.assertEqual(executor.submit(actor_classes.error_of, counter).result(), "NodeFailed")

    def test_call_that_runs_fails_with_its_worker(self):
        executor = self.executor(1)
        counter = executor.create(Counter)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "begun")
            call, behind = counter.note_and_wait.submit(path), counter.add.submit(1)
            self.assertTrue(support.wait_until(lambda: os.path.exists(path)))
            os.kill(executor[0].pid, signal.SIGSEGV)
            for future in (call, behind):
                self.assertRaisesRegex(farcall.NodeFailed, "was killed by SIGSEGV while it ran Counter.", future.result)
        self.assertEqual(executor.submit(tasks.same, 1).result(), 1)

    def test_failure_of_an_actor_leaves_the_calling_worker_alone(self):
        executor = self.executor(2)
        counter = executor.create(Counter, node=0)
        self.assertRaises(farcall.NodeFailed, counter.die)
        pid = executor[1].pid
        with self.assertRaises(farcall.NodeFailed):
            executor.submit_to(1, actor_classes.use, counter, 1).result()
        self.assertEqual(executor.submit_to(1, os.getpid).result(), pid)

    def test_calls_after_shutdown_are_errors(self):
        executor = farcall.Executor(1)
        counter = executor.create(Counter)
        executor.shutdown()
        self.assertRaises(RuntimeError, counter.add, 1)
        self.assertRaises(RuntimeError, counter.add.submit, 1)


class Handles(support.TestCase):
    """Handles in other processes, and the end of objects."""

    def setUp(self):
        super().setUp()
        folder = support.TemporaryFolder()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "object")

    def assert_lives(self, actor):
        """Checks that an object was not freed."""
        self.assertEqual(actor.work(), 1)
        self.assertFalse(os.path.exists(self.path + ".freed"))

    def assert_is_freed(self):
        """Checks that the object is freed soon, and was not closed."""
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path + ".freed")))
        self.assertFalse(os.path.exists(self.path + ".closed"))

    def test_handles_work_in_tasks_on_all_workers(self):
        executor = self.executor(3)
        counter = executor.create(Counter, node=1)
        self.assertEqual([executor.submit_to(i, actor_classes.use, counter, 1).result() for i in range(3)], [1, 2, 3])
        for i in range(3):
            counter = executor.create(Counter, node=1)
            self.assertEqual(executor.submit_to(i, actor_classes.use_in_all_ways, counter).result(),
                             (3, 6, 6, [1, 2, 3]))

    def test_actors_that_call_each_other_do_not_deadlock(self):
        for executor in (self.executor(1), self.executor(2)):
            first, second = executor.create(Counter, 7), executor.create(Counter, 8)
            first.know(first)
            second.know(second)
            self.assertEqual(first.ask(second, 9), 8)
            self.assertEqual(first.ask(first, 3), 7)

    def test_actor_is_made_in_a_task(self):
        executor = self.executor(2)
        counter = executor.submit(actor_classes.create, executor, 40).result()
        self.assertEqual((counter.add(1), counter.n), (42, 42))

    def test_handles_come_back(self):
        executor = self.executor(2)
        counter = executor.create(Counter, 3)
        self.assertEqual(executor.submit(tasks.same, [counter]).result()[0].add(1), 4)
        self.assertEqual(copy.copy(counter).add(1), 5)

    def test_object_is_freed_after_the_last_handle(self):
        executor = self.executor(1)
        resource = executor.create(Resource, self.path)
        self.assert_lives(resource)
        method = resource.work
        del resource
        self.assertEqual(method(), 1)
        del method
        self.assert_is_freed()

    def test_handle_in_a_worker_keeps_the_object(self):
        executor = self.executor(2)
        resource = executor.create(Resource, self.path, node=0)
        executor.submit_to(1, actor_classes.keep, resource).result()
        del resource
        self.assertEqual(executor.submit_to(1, actor_classes.use_kept).result(), 1)
        self.assertFalse(os.path.exists(self.path + ".freed"))
        executor.submit_to(1, actor_classes.drop).result()
        self.assert_is_freed()

    def test_handle_of_a_dead_worker_keeps_nothing(self):
        executor = self.executor(2)
        resource = executor.create(Resource, self.path, node=0)
        executor.submit_to(1, actor_classes.keep, resource).result()
        del resource
        self.assertRaises(farcall.NodeFailed, executor.submit_to(1, tasks.die).result)
        self.assert_is_freed()

    def test_handle_on_its_way_keeps_the_object(self):
        executor = self.executor(2)
        resource = executor.create(Resource, self.path, node=0)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            blocking = executor.submit_to(1, tasks.pid_after, path)
            future = executor.submit_to(1, actor_classes.keep, resource)
            del resource
            open(path, "w", encoding="ascii").close()
            self.assertIsNone(future.result())
            self.assertGreater(blocking.result(), 0)
        self.assertEqual(executor.submit_to(1, actor_classes.use_kept).result(), 1)

    def test_returned_handle_keeps_the_object(self):
        executor = self.executor(2)
        for _ in range(20):
            counter = executor.submit(actor_classes.create, executor, 1).result()
            self.assertEqual(counter.add(1), 3)

    def test_object_of_a_task_is_freed_with_its_handle(self):
        executor = self.executor(2)
        self.assertEqual(executor.submit(actor_classes.create_and_drop, executor, self.path).result(), 1)
        self.assert_is_freed()

    def test_handle_in_a_cancelled_call_keeps_nothing(self):
        executor = self.executor(1)
        resource = executor.create(Resource, self.path)
        with support.TemporaryFolder() as folder:
            path = os.path.join(folder, "go")
            running = executor.submit_to(0, tasks.pid_after, path)
            pending = executor.submit(actor_classes.keep, resource)
            self.assertTrue(pending.cancel())
            open(path, "w", encoding="ascii").close()
            running.result()
        del resource, pending
        executor.submit(tasks.same, 1).result()
        self.assert_is_freed()

    def test_object_is_freed_without_its_maker(self):
        executor = self.executor(1)

        async def create():
            task = asyncio.ensure_future(executor.acreate(Resource, self.path))
            await asyncio.sleep(0)
            # The object exists, and the future has its result, before the loop goes on.
            executor.submit_to(0, tasks.same, 1).result()
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        self.assertTrue(asyncio.run(create()))
        executor.submit(tasks.same, 1).result()
        self.assert_is_freed()

    def test_close_ends_the_object_after_its_calls(self):
        executor = self.executor(2)
        with executor.create(Resource, self.path) as resource:
            self.assert_lives(resource)
            executor.submit_to(1, actor_classes.keep, resource).result()
        self.assertTrue(os.path.exists(self.path + ".closed"))
        self.assertTrue(support.wait_until(lambda: os.path.exists(self.path + ".freed")))
        for call in (resource.work, lambda: resource.work.submit().result()):
            self.assertRaisesRegex(RuntimeError, "was closed", call)
        with self.assertRaisesRegex(RuntimeError, "was closed"):
            executor.submit_to(1, actor_classes.use_kept).result()
        resource.close()

    def test_close_works_with_threads_and_in_place(self):
        for executor, options in ((self.executor(1), {"threads": 2}), (self.executor(0), {})):
            resource = executor.create(Resource, self.path, **options)
            work = resource.work
            resource.close()
            self.assertTrue(os.path.exists(self.path + ".closed"))
            self.assertRaisesRegex(RuntimeError, "was closed", work)
            os.remove(self.path + ".closed")

    def test_handle_of_a_closed_actor_can_be_sent(self):
        executor = self.executor(2)
        counter = executor.create(Counter)
        counter.close()
        self.assertIn("was closed", executor.submit(actor_classes.error_of, counter).result())

    def test_actor_of_another_executor_is_refused(self):
        counter = self.executor(1).create(Counter)
        text = self.executor(1).submit(actor_classes.error_of, counter).result()
        self.assertIn("belongs to another executor", text)
        self.assertEqual(counter.add(1), 1)

    def test_dir_of_a_handle_has_the_methods(self):
        for executor in (self.executor(1), self.executor(0)):
            counter = executor.create(Counter)
            counter.add(1)
            names = dir(counter)
            self.assertTrue({"add", "close"} <= set(names), names)
            self.assertFalse([name for name in names if not name.isidentifier()])

    def test_number_of_threads_is_checked(self):
        executor = self.executor(1)
        self.assertRaisesRegex(TypeError, "threads must be a whole number", executor.create, Counter, threads="2")
        self.assertRaisesRegex(ValueError, "threads must be at least 1", executor.create, Counter, threads=0)

    def test_worker_with_an_actor_stays_after_its_tasks(self):
        executor = self.executor(1, max_tasks_per_child=2)
        counter = executor.create(Counter)
        pids = {executor.submit(os.getpid).result() for _ in range(6)}
        self.assertEqual((pids, counter.add(1)), ({counter.pid()}, 1))

    def test_handle_keeps_the_executor(self):
        counter = farcall.Executor(1).create(Counter)
        self.assertEqual(counter.add(1), 1)

    def test_calls_on_one_executor_may_use_only_its_actors(self):
        first, second = self.executor(1), self.executor(1)
        counter = first.create(Counter)
        future = second.submit(actor_classes.use, counter, 1)
        self.assertIsInstance(future.exception(), RuntimeError)
        self.assertEqual(counter.n, 0)

    def test_futures_of_methods_work_with_wait(self):
        counter = self.executor(1).create(Counter)
        futures = [counter.add.submit(1) for _ in range(50)]
        done, left = concurrent.futures.wait(futures)
        self.assertEqual((len(done), left), (50, set()))
        self.assertEqual(sorted(future.result() for future in farcall.as_completed(futures)), list(range(1, 51)))


if __name__ == "__main__":
    support.main()
