# SPDX-License-Identifier: Apache-2.0
"""Program that ends in a state and in a way that follow from its argument, which is a seed.

The first line of its output names the way, the exit status, the exception whose traceback is printed or "-", and the
states. The second line is "ends".
"""

import asyncio
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time

import actor_classes
import farcall
import stress_tasks
import tasks

# Objects that live until the interpreter ends.
kept = []


class Ends:
    """The states of a program that may end at once, or finish its calls before."""

    def __init__(self, choose, is_sudden):
        self.choose = choose
        self.executor = farcall.Executor(choose.randint(1, 3))
        # Programs that end in an orderly way wait for their calls.
        self.seconds = 600 if is_sudden else 0.2

    def idle(self):
        """Has waited for a call."""
        self.executor.submit(abs, -1).result()

    def running(self):
        """Has calls that run, on workers of their own, because other states wait for calls."""
        executor = farcall.Executor(2)
        kept.extend([executor, [executor.submit(time.sleep, self.seconds) for _ in range(3)]])

    def pending(self):
        """Has calls that wait for a worker."""
        kept.extend(self.executor.submit(stress_tasks.hold_the_gil, 0.001) for _ in range(200))

    def dropped(self):
        """Has calls whose futures were dropped."""
        for number in range(50):
            self.executor.submit(stress_tasks.square, number)

    def map_half_read(self):
        """Has read some results of a map()."""
        results = self.executor.map(stress_tasks.square, range(10_000))
        next(results)
        kept.append(results)

    def completed_half_read(self):
        """Has read some futures of as_completed()."""
        futures = farcall.as_completed([self.executor.submit(stress_tasks.square, i) for i in range(50)])
        next(futures)
        kept.append(futures)

    def actor(self):
        """Has an actor whose method runs."""
        counter = self.executor.create(actor_classes.Counter)
        kept.extend([counter, [counter.add.submit(1) for _ in range(50)]])

    def array(self):
        """Has an array, and a view of its memory."""
        array = farcall.empty(100_000, "u1", self.executor[0])
        kept.extend([array, array[5:10], array.local()])

    def large(self):
        """Has a large result, and a large call."""
        data = bytes(3 << 20)
        kept.extend([self.executor.submit(tasks.same, data).result(), self.executor.submit(tasks.same, data)])

    def callbacks(self):
        """Has callbacks that make calls."""
        def go_on(future):
            try:
                if not future.cancelled() and future.exception() is None:
                    self.executor.submit(stress_tasks.square, 2).add_done_callback(kept.append)
            except RuntimeError:
                pass  # the executor has been shut down

        for _ in range(20):
            self.executor.submit(stress_tasks.square, 1).add_done_callback(go_on)

    def thread(self):
        """Has a thread that makes calls, for which the interpreter waits."""
        def work():
            try:
                for number in range(300):
                    self.executor.submit(stress_tasks.square, number).result()
            except (RuntimeError, farcall.CancelledError):
                pass  # the executor has been shut down, or its workers were killed

        threading.Thread(target=work).start()

    def daemon(self):
        """Has a thread that makes calls for ever."""
        def work():
            try:
                while True:
                    self.executor.submit(stress_tasks.square, 3).result()
            except BaseException:  # pylint: disable=broad-except
                pass

        threading.Thread(target=work, daemon=True).start()

    def daemon_with_function(self):
        """Has a thread that calls a function without futures for ever."""
        def work():
            try:
                function = self.executor.function(stress_tasks.square)
                while True:
                    function(3)
            except BaseException:  # pylint: disable=broad-except
                pass

        threading.Thread(target=work, daemon=True).start()

    def event_loop(self):
        """Has a thread with an event loop that awaits calls."""
        async def work():
            try:
                while True:
                    await asyncio.gather(*[self.executor.submit(stress_tasks.square, i) for i in range(20)])
            except BaseException:  # pylint: disable=broad-except
                pass

        threading.Thread(target=lambda: asyncio.run(work()), daemon=True).start()

    def killed(self):
        """Has killed a worker."""
        kept.append(self.executor.submit(stress_tasks.hold_the_gil, 0.1))
        os.kill(self.choose.choice(list(self.executor._pool.pids().values())), signal.SIGKILL)

    def exited(self):
        """Has a worker that ends."""
        kept.append(self.executor.submit(os._exit, 7))

    def stopped(self):
        """Stops a call that holds the GIL."""
        future = self.executor.submit(stress_tasks.hold_the_gil_for_ever)
        future.stop(grace=self.choose.random() / 10)
        kept.append(future)

    def late(self):
        """Has a call that takes longer than it may."""
        kept.append(self.executor.with_timeout(0.05).submit(time.sleep, 600))

    def nested(self):
        """Has a task that waits for tasks."""
        kept.append(self.executor.submit(tasks.count_down, self.executor, 50))

    def forked(self):
        """Has a child that ends by sys.exit()."""
        pid = os.fork()
        if pid == 0:
            kept.clear()
            sys.stdout = None  # without text that would be written twice
            raise SystemExit(0)
        kept.append(pid)

    def second(self):
        """Has a second executor, which nothing refers to any more."""
        kept.append(farcall.Executor(1).submit(stress_tasks.square, 4))

    def cycle(self):
        """Has an executor in a cycle, with a finalizer that makes a call."""
        class Late:
            """Object whose finalizer makes a call."""

            def __init__(self, executor):
                self.executor, self.me = executor, self

            def __del__(self):
                try:
                    self.executor.submit(abs, -1)
                except RuntimeError:
                    pass

        Late(self.executor)

    def job(self):
        """Has a job with a call."""
        job = farcall.Job("shm:1")
        kept.extend([job, job[1].submit(stress_tasks.square, 3)])

    def collected(self):
        """Has collected garbage."""
        gc.collect()


STATES = [name for name in vars(Ends) if name[0] != "_"]


def returns():
    """Reaches the end of the program."""


def exits():
    """Calls sys.exit()."""
    sys.exit(3)


def raises():
    """Raises an exception."""
    raise LookupError("the program ends")


def exits_at_once():
    """Ends without the interpreter's cleanup."""
    os._exit(4)


def is_terminated():
    """Gets a signal that ends the process."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def is_killed():
    """Gets the signal that cannot be handled."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def is_interrupted():
    """Gets Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)


def exits_in_a_thread():
    """Ends from another thread."""
    threading.Thread(target=os._exit, args=(5,)).start()
    time.sleep(60)


# Exit status, exception that is printed, and whether calls that run are given up.
WAYS = {"returns": (0, "-", False), "exits": (3, "-", False), "raises": (1, "LookupError", False),
        "exits_at_once": (4, "-", True), "is_terminated": (-signal.SIGTERM, "-", True),
        "is_killed": (-signal.SIGKILL, "-", True), "is_interrupted": (-signal.SIGINT, "KeyboardInterrupt", True),
        "exits_in_a_thread": (5, "-", True), "shuts_down": (0, "-", False), "leaves_by_with": (0, "-", False),
        "kills_workers": (0, "-", False)}


def main():
    """Gets into the states, and ends."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = int(sys.argv[1])
    choose = random.Random(seed)
    way = list(WAYS)[seed % len(WAYS)]
    status, error, is_sudden = WAYS[way]
    # Each way and each state has its turn.
    states = [STATES[seed % len(STATES)], *choose.sample(STATES, choose.randint(0, 4))]
    print(way, int(status), error, *states, flush=True)
    made = Ends(choose, is_sudden)
    for state in states:
        getattr(made, state)()
    print("ends", flush=True)
    if way == "shuts_down":
        made.executor.shutdown(wait=False)
    elif way == "kills_workers":
        made.executor.kill_workers()
    elif way == "leaves_by_with":
        with made.executor:
            pass
    else:
        globals()[way]()


if __name__ == "__main__":
    main()
