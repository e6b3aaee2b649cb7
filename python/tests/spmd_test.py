# SPDX-License-Identifier: Apache-2.0
"""Tests of jobs of equals: farcall.spmd()."""

import os
import pathlib
import shutil
import sys
import tempfile
import textwrap
import time

import farcall
import support

BEGIN = """
import array, operator, os, sys, threading, time, warnings
import farcall
job = farcall.spmd()


def print(*values):
    # Processes share their output, so each line is written at once.
    os.write(1, (" ".join(map(str, values)) + "\\n").encode())


"""

# Program whose executor uses the other processes of a launcher, and its output in three processes.
WORKERS = """
import os, farcall
os.write(1, b"begin\\n")
with farcall.Executor("{}") as executor:
    pids = set(future.result() for future in [executor.submit(os.getpid) for _ in range(100)])
    print(list(executor.map(abs, range(-3, 0))), os.getpid() in pids, len(pids) <= 2)
"""
OUTPUT_OF_WORKERS = ["", "[3, 2, 1] False True", *["begin"] * 3]
CLUSTER = str(pathlib.Path(__file__).resolve().parents[2] / "tests/launchers/slurm_cluster.sh")


class Equals(support.TestCase):
    """Programs that run in several processes."""

    GUARD = 120

    def run_equals(self, text, targets="shm:2", *, launcher=(), arguments=()):
        """Runs a program in several processes, and returns its exit status, output and errors."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(BEGIN + textwrap.dedent(text))
            command = [*launcher, sys.executable, path, *arguments]
            if not launcher:
                command = ["env", f"FARCALL_TARGETS={targets}", *command]
            return support.run(command)

    def check(self, text, expected, **options):
        """Runs a program that must print the lines, in any order."""
        status, out, errors = self.run_equals(text, **options)
        self.assertEqual((status, sorted(out.splitlines()), errors), (0, sorted(expected), ""))

    def test_each_process_has_its_rank(self):
        self.check("print(job.rank, job.size, len(job), job[job.rank].pid == os.getpid())",
                   [f"{rank} 3 3 True" for rank in range(3)])

    def test_arguments_reach_all_processes(self):
        self.check("print(*sys.argv[1:])", ["a b"] * 3, arguments=("a", "b"))

    def test_one_process_is_a_job(self):
        self.check("""
            job.barrier()
            print(job.allgather("x"), job.bcast([1]), job[0].call(abs, -2))
            """, ["['x'] [1] 2"], targets="none")

    def test_barrier_waits_for_all(self):
        self.check("""
            path = sys.argv[1] + str(job.rank)
            open(path, "w").close()
            job.barrier()
            print([os.path.exists(sys.argv[1] + str(rank)) for rank in range(job.size)])
            job.barrier()
            os.remove(path)
            """, ["[True, True, True]"] * 3, arguments=(f"{tempfile.gettempdir()}/farcall-{os.getpid()}-",))

    def test_allgather_gives_all_values(self):
        self.check("""
            short = job.allgather({"rank": job.rank})
            long = job.allgather("x" * (100_000 * job.rank))
            print(short, [len(each) for each in long], job.allgather(None))
            """, ["[{'rank': 0}, {'rank': 1}, {'rank': 2}] [0, 100000, 200000] [None, None, None]"] * 3)

    def test_bcast_gives_the_value_of_the_root(self):
        self.check("""
            short = job.bcast(("root", job.rank), root=1)
            long = job.bcast("y" * 1_000_000 if job.rank == 2 else None, 2)
            print(short, len(long), job.bcast(job.rank))
            """, ["('root', 1) 1000000 0"] * 3)

    def test_bcast_fills_buffers(self):
        self.check("""
            numbers = array.array("d", [job.rank] * 50_000)
            same = job.bcast(numbers, 2) is numbers
            data = job.bcast(bytearray(b"ab") if job.rank == 0 else None)
            print(same, set(numbers), data)
            """, ["True {2.0} bytearray(b'ab')"] * 3)

    def test_bcast_sends_arrays_of_numpy(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.check("""
            import numpy
            made = job.bcast(numpy.arange(1000.0) if job.rank == 0 else None)
            own = numpy.full(1000, float(job.rank))
            job.bcast(own, root=1)
            print(made.sum(), own.sum(), made.dtype)
            """, ["499500.0 1000.0 float64"] * 3)

    def test_values_are_combined_in_the_order_of_the_ranks(self):
        self.check("""
            rank = str(job.rank)
            print(job.allreduce(rank), job.scan(rank), job.reduce(rank, root=1), job.allreduce(rank, max),
                  job.allreduce(job.rank + 1, "prod"), job.allreduce(1.5), job.scan(job.rank, lambda a, b: a * 10 + b),
                  job.allreduce(job.rank, "land"), job.reduce([job.rank], operator.add))
            """, ["012 0 None 2 6 4.5 0 False [0, 1, 2]", "012 01 012 2 6 4.5 1 False None",
                  "012 012 None 2 6 4.5 12 False None"])

    def test_numbers_of_buffers_are_combined(self):
        self.check("""
            numbers = array.array("d", [job.rank, 1.5] * 50_000)
            added = job.allreduce(numbers)
            least = job.reduce(array.array("i", [job.rank, -job.rank]), "min", 2)
            print(type(added) is array.array, added[:2].tolist(), added == array.array("d", [3, 4.5] * 50_000),
                  numbers[0] == job.rank, least and least.tolist(),
                  job.scan(bytearray([1 << job.rank]), "bor")[0])
            """, ["True [3.0, 4.5] True True None 1", "True [3.0, 4.5] True True None 3",
                  "True [3.0, 4.5] True True [0, -2] 7"])

    def test_views_of_memory_are_combined(self):
        self.check("""
            import ctypes
            numbers = array.array("d", [job.rank, 1.5])
            rows = job.allreduce(memoryview(numbers).cast("B").cast("d", (2, 1)))
            most = job.scan(memoryview((ctypes.c_int32 * 2)(1, job.rank)), "max")
            print(rows.tolist(), numbers[0] == job.rank, most.format, most[1] == job.rank)
            """, ["[[3.0], [4.5]] True i True"] * 3)

    def test_copies_of_another_type_are_errors(self):
        self.check("""
            class Numbers(array.array):
                def __copy__(self):
                    return bytearray(len(self))
            try:
                job.allreduce(Numbers("d", [1, 2]))
            except TypeError as error:
                print(error)
            """, ["the copy of a buffer has values of another type"] * 3)

    def test_arrays_of_numpy_are_combined(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.check("""
            import numpy
            added = job.allreduce(numpy.full((2, 3), job.rank, dtype="f4"))
            print(added.dtype, added.shape, added.sum(), job.allreduce(numpy.int64(job.rank)))
            """, ["float32 (2, 3) 18.0 3"] * 3)

    def test_arrays_of_all_kinds_are_combined(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.check("""
            import numpy
            table = numpy.arange(6.0).reshape(2, 3) + job.rank
            for value in (table.T, numpy.asfortranarray(table), numpy.broadcast_to(table[0], (2, 3)),
                          table.astype("f2"), table.astype(">f8")):
                largest, smallest = job.allreduce(value, "max"), job.allreduce(value, "min")
                print(largest.shape == value.shape, largest.dtype == value.dtype, largest.max(), smallest.min())
            print(job.allreduce(numpy.array([True, job.rank > 0]), "land"), job.bcast(3, root=numpy.int64(1)))
            print(job.allreduce(memoryview(array.array("l", [job.rank]))).tolist(),
                  job.allreduce(numpy.zeros((0, 3))).shape)
            """, [*["True True 7.0 0.0", "True True 7.0 0.0", "True True 4.0 0.0", "True True 7.0 0.0",
                    "True True 7.0 0.0", "[ True False] 3", "[3] (0, 3)"] * 3])

    def test_arrays_of_all_kinds_are_broadcast(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.check("""
            import numpy
            def both(value, other):
                return job.bcast(value if job.rank == 0 else None), job.bcast(value if job.rank == 0 else other)
            words = numpy.array([{"a": 1}, None], dtype=object)
            print(*(value.tolist() for value in both(words, numpy.array([None, None], dtype=object))))
            record = numpy.array([(1, "x")], dtype=[("a:O", "i4"), ("b", object)])
            print(*(value.tolist() for value in both(record, record.copy())))
            days = numpy.array(["2020-01-01"], dtype="M8[D]")
            print(*(str(value[0]) for value in both(days, days.copy())))
            print(*(value.tolist() for value in both(numpy.array([1j]), numpy.zeros(1, complex))))
            print(*(value.shape for value in both(numpy.zeros((0, 3)), numpy.zeros((0, 3)))))
            """, [*["[{'a': 1}, None] [{'a': 1}, None]", "[(1, 'x')] [(1, 'x')]", "2020-01-01 2020-01-01", "[1j] [1j]",
                    "(0, 3) (0, 3)"] * 3])

    def test_combined_buffers_of_different_sizes_are_errors(self):
        status, out, _ = self.run_equals("""
            try:
                job.allreduce(array.array("d", [1] * (1 + job.rank)))
            except RuntimeError as error:
                print("different sizes" in str(error))
            os._exit(3)
            """)
        self.assertEqual(status, 3)
        self.assertIn("True", out)

    def test_wrong_operations_are_errors(self):
        self.check("""
            for call in (lambda: job.allreduce(1, "mean"), lambda: job.reduce(1, root=3),
                         lambda: job.allreduce(array.array("d", [1]), "band")):
                try:
                    call()
                except ValueError as error:
                    print(error)
            """, ["op must be a function or one of sum, prod, min, max, band, bor, bxor, land, lor, and not 'mean'",
                  "root must be a rank from 0 to 2, and not 3", "the operation 'band' is for integers"] * 3)

    def test_buffers_of_another_size_are_errors(self):
        self.check("""
            try:
                job.bcast(bytearray(10 + job.rank))
            except ValueError as error:
                print(error)
            job.barrier()
            """, [f"the buffer has {10 + rank} bytes, and the buffer of node 0 has 10" for rank in (1, 2)])

    def test_values_that_cannot_be_sent_are_errors_everywhere(self):
        self.check("""
            for send in (job.allgather, job.bcast):
                try:
                    send(threading.Lock() if job.rank == 0 else 1)
                except Exception as error:
                    print(type(error).__name__)
            print(job.allgather(job.rank))
            """, ["TypeError", "RemoteError", "RemoteError"] * 2 + ["[0, 1, 2]"] * 3)

    def test_forked_child_leaves_the_job_to_its_parent(self):
        self.check("""
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
            child = os.fork()
            if child == 0:
                sys.exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), job.allreduce(1))
            """, ["3 3"] * 3)

    def test_processes_call_each_other(self):
        self.check("""
            def next_rank():
                return (job.rank + 1) % job.size

            pids = job.allgather(os.getpid())
            print(job.node(next_rank()).call(os.getpid) == pids[next_rank()],
                  job[next_rank()].submit(operator.mul, 6, 7).result())
            try:
                job[next_rank()].call(int, "no number")
            except ValueError as error:
                print(error)
            job.barrier()
            """, ["True 42", "invalid literal for int() with base 10: 'no number'"] * 3)

    def test_large_arguments_and_results_reach_other_processes(self):
        self.check("""
            peer = job[(job.rank + 1) % job.size]
            data = bytes(range(256)) * 4096
            print(peer.call(operator.itemgetter(-1), data), peer.call(bytes, 1 << 20) == bytes(1 << 20),
                  bytes(peer.call(bytearray, data)) == data)
            """, ["255 True True"] * 3)

    def test_large_results_outlive_the_job(self):
        self.check("""
            kept = job[(job.rank + 1) % job.size].call(bytearray, b"ab" * 100_000)
            job.end()
            print(len(kept), kept[-1])
            del kept
            """, ["200000 98"] * 3)

    def test_calls_are_served_while_a_process_computes(self):
        self.check("""
            import tasks_of_equals
            if job.rank == 0:
                tasks_of_equals.wait()  # in Python, without a call of farcall
                print("called")
            else:
                job[0].call(tasks_of_equals.go)
            """, ["called"], launcher=self.with_module("""
            import time
            count = 0

            def go():
                global count
                count += 1

            def wait():
                while count < 2:
                    time.sleep(0.001)
            """))

    def test_calls_may_call_back(self):
        self.check("""
            import tasks_of_equals
            tasks_of_equals.job = job
            job.barrier()
            print(job[(job.rank + 1) % job.size].call(tasks_of_equals.down, 10))
            job.barrier()
            """, ["10"] * 3, launcher=self.with_module("""
            job = None

            def down(depth):
                return 0 if depth == 0 else 1 + job[(job.rank + 1) % job.size].call(down, depth - 1)
            """))

    def with_module(self, text):
        """Makes a module tasks_of_equals, and returns the command before the program."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "tasks_of_equals.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        path = os.pathsep.join([folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        return "env", "FARCALL_TARGETS=shm:2", f"PYTHONPATH={path}"

    def test_exception_of_one_process_ends_all(self):
        status, _, errors = self.run_equals("""
            if job.rank == 1:
                raise LookupError("only here")
            job.barrier()
            """)
        self.assertEqual(status, 1)
        self.assertIn("LookupError: only here", errors)
        self.assertIn("all nodes are ended", errors)
        status, _, errors = self.run_equals("""
            with job:
                if job.rank == 2:
                    raise LookupError("in the block")
                job.barrier()
            """)
        self.assertEqual(status, 1)
        self.assertIn("LookupError: in the block", errors)

    def test_process_that_is_killed_ends_all(self):
        status, out, errors = self.run_equals("""
            print(os.getpid())
            if job.rank == 1:
                os.kill(os.getpid(), 9)
            job.barrier()
            """)
        self.assertEqual(status, 128 + 9)
        self.assertIn("all nodes are ended", errors)
        for pid in out.split():
            self.assertTrue(support.wait_until(lambda pid=pid: support.is_gone(int(pid))))

    def test_ctrl_c_ends_a_collective(self):
        begin = time.monotonic()
        status, out, errors = self.run_equals("""
            print(os.getpid())
            if job.rank == 0:
                threading.Timer(0.3, os.kill, (os.getpid(), 2)).start()
                job.barrier()
            time.sleep(60)
            """)
        self.assertLess(time.monotonic() - begin, support.GUARD_SECONDS / 2)
        self.assertIn(status, (-2, 130), errors)
        for pid in out.split():
            self.assertTrue(support.wait_until(lambda pid=pid: support.is_gone(int(pid))))

    def test_ctrl_c_is_an_exception_of_a_collective(self):
        _, out, errors = self.run_equals("""
            collectives = [job.barrier, lambda: job.allgather(1), lambda: job.bcast(root=1)]
            if job.rank == 0:
                threading.Timer(0.3, os.kill, (os.getpid(), 2)).start()
                try:
                    collectives[int(sys.argv[1])]()
                except KeyboardInterrupt:
                    print("interrupted")
                try:
                    job.barrier()
                except RuntimeError as error:
                    print("no more collectives" in str(error))
                os._exit(0)
            time.sleep(60)
            """, arguments=("0",))
        self.assertEqual(out.splitlines(), ["interrupted", "True"], errors)

    def test_nodes_do_not_change(self):
        self.check("""
            for change in (lambda: job.add("shm"), lambda: job[0].remove(), lambda: job.on_node_change(print)):
                try:
                    change()
                except RuntimeError as error:
                    print("refused")
            """, ["refused"] * 9)

    def test_functions_in_c_are_called_on_other_processes(self):
        self.check("""
            node = job[(job.rank + 1) % job.size]
            c = node.load("libc.so.6")
            print(c.function("getpid", "i()")() == node.pid, c.function("abs", "i(i)", timeout=30)(-job.rank))
            try:
                c.function("usleep", "i(I)", timeout=0.05)(300000)
            except farcall.Timeout:
                print("late")
            job.barrier()
            """, [*[f"True {rank}" for rank in range(3)], *["late"] * 3])

    def test_collectives_have_time_limits(self):
        status, out, _ = self.run_equals("""
            if job.rank == 0:
                try:
                    job.barrier(timeout=0.2)
                except farcall.Timeout:
                    print("late")
                    os._exit(5)
            else:
                time.sleep(60)
            """)
        self.assertEqual((status, out), (5, "late\n"))

    def test_different_collectives_are_errors(self):
        status, out, _ = self.run_equals("""
            try:
                job.barrier() if job.rank == 0 else job.allgather(1)
            except RuntimeError as error:
                print("barrier" in str(error))
            os._exit(3)
            """)
        self.assertEqual(status, 3)
        self.assertIn("True", out)

    def test_job_ends_once_and_is_made_once(self):
        self.check("""
            try:
                farcall.spmd()
            except RuntimeError as error:
                print(error)
            job.end()
            job.end()
            try:
                job.barrier()
            except RuntimeError as error:
                print(error, job.rank < job.size)
            """, ["this process has made its job of equals already", "the job has ended; make another one True"] * 3)

    def test_wrong_arguments_are_errors(self):
        self.check("""
            for call in (lambda: job.bcast(1, root=9), lambda: job.bcast(1, root="0"), lambda: job.barrier(-1),
                         lambda: job.barrier("1")):
                try:
                    call()
                except (TypeError, ValueError) as error:
                    print(error)
            """, ["root must be a rank from 0 to 2, and not 9", "root must be a rank from 0 to 2, and not '0'",
                  "timeout must not be negative", "timeout must be a number of seconds, and not str"] * 3)

    def mpirun(self):
        """Returns the command that starts three processes by Open MPI."""
        path = shutil.which("mpirun")
        if path is None or "Open MPI" not in support.run([path, "--version"])[1]:
            self.skipTest("Open MPI's mpirun is not installed")
        return path, "--allow-run-as-root", "--oversubscribe", "-n", "3"

    def test_processes_of_mpirun_are_equals(self):
        status, out, errors = self.run_equals("print(job.rank, job.allgather(job.rank))", launcher=self.mpirun())
        self.assertEqual((status, sorted(out.splitlines())), (0, [f"{rank} [0, 1, 2]" for rank in range(3)]), errors)

    def test_processes_of_mpirun_are_workers(self):
        status, out, errors = support.run([*self.mpirun(), sys.executable, "-c", WORKERS.format("mpirun")])
        self.assertEqual((status, sorted(out.split("\n"))), (0, OUTPUT_OF_WORKERS), errors)

    def test_processes_of_srun_are_equals_and_workers(self):
        with tempfile.TemporaryDirectory(prefix="fc") as folder:
            cluster = os.path.join(folder, "slurm")
            status, configuration, errors = support.run([CLUSTER, "start", cluster])
            if status == 77:
                self.skipTest(errors)
            self.assertEqual(status, 0, errors)
            srun = ("env", f"SLURM_CONF={configuration.strip()}", "srun", "--quiet", "--mpi=pmi2", "-n", "3")
            try:
                status, out, errors = self.run_equals("print(job.rank, job.allgather(job.rank))", launcher=srun)
                self.assertEqual((status, sorted(out.splitlines())),
                                 (0, [f"{rank} [0, 1, 2]" for rank in range(3)]), errors)
                status, out, errors = support.run([*srun, sys.executable, "-c", WORKERS.format("srun")])
                self.assertEqual((status, sorted(out.split("\n"))), (0, OUTPUT_OF_WORKERS), errors)
            finally:
                support.run([CLUSTER, "stop", cluster])

    def test_executor_of_mpirun_needs_mpirun(self):
        for name in ("mpirun", "srun"):
            with self.assertRaisesRegex(ValueError, f"programs that {name} has started"):
                farcall.Executor(name)


if __name__ == "__main__":
    support.main()
