# SPDX-License-Identifier: Apache-2.0
"""Tests of functions in C on nodes of a farcall.Job."""

import array
import ctypes
import math
import os
import signal
import threading
import time

import farcall
import support
from farcall import _native


class NativeCase(support.TestCase):
    """A job with a target that runs Python, which loads libraries of the system."""

    @classmethod
    def setUpClass(cls):
        cls.job = farcall.Job("shm:2")
        cls.addClassCleanup(cls.job.end)
        cls.math = cls.job[1].load("libm.so.6")
        cls.c = cls.job[1].load("libc.so.6")


class Calls(NativeCase):
    """Calls by signatures, by types of ctypes, and by annotations."""

    def test_signature_describes_the_function(self):
        power = self.math.function("pow", "d(dd)")
        self.assertEqual(power(2, 10), 1024.0)
        self.assertEqual(power.__name__, "pow")
        self.assertEqual(self.c.function("labs", "l(l)")(-5), 5)
        self.assertEqual(self.c.function("toupper", "i ( i )")(ord("a")), ord("A"))
        self.assertEqual(self.math.function("sqrtf", "f(f)")(4.0), 2.0)
        self.assertIsNone(self.c.function("srand", "v(I)")(1))

    def test_function_runs_on_its_node(self):
        self.assertEqual(self.c.function("getpid", "i()")(), self.job[1].pid)
        other = self.job[2].load("libc.so.6")
        self.assertEqual(other.function("getpid", "i()")(), self.job[2].pid)

    def test_prototypes_are_as_in_ctypes(self):
        self.math.fmax.argtypes = [ctypes.c_double, ctypes.c_double]
        self.math.fmax.restype = ctypes.c_double
        self.assertEqual(self.math.fmax(1, 2), 2.0)
        self.c.abs.argtypes = (ctypes.c_int,)
        self.assertEqual(self.c.abs(-3), 3)  # int is the result unless restype is set
        self.assertEqual(self.c["abs"].submit(-4).result(), 4)
        self.c.strlen.argtypes = [ctypes.c_char_p]
        self.c.strlen.restype = ctypes.c_size_t
        self.assertEqual(self.c.strlen(b"four"), 4)

    def test_function_with_annotations_stands_for_a_function_in_c(self):
        def ldexp(value: farcall.f64, exponent: farcall.i32) -> farcall.f64:
            raise NotImplementedError((value, exponent))

        self.assertEqual(self.math.function(ldexp)(1.5, 4), 24.0)

    def test_numbers_must_fit_their_types(self):
        cases = [("b(b)", -129, 127), ("B(B)", 256, 255), ("h(h)", 1 << 15, -5), ("H(H)", -1, 65535),
                 ("i(i)", 1 << 31, -(1 << 31)), ("I(I)", 1 << 32, 1), ("q(q)", 1 << 63, -7), ("Q(Q)", -1, 3),
                 ("N(N)", 1 << 64, 3)]
        for signature, wrong, right in cases:
            same = self.c.function("labs", signature)
            with self.assertRaises(OverflowError, msg=signature):
                same(wrong)
            same(right)
        with self.assertRaisesRegex(OverflowError, r"argument 1 of sqrtf\(\): is too large"):
            self.math.function("sqrtf", "f(f)")(1e300)

    def test_wrong_arguments_are_named(self):
        power = self.math.function("pow", "d(dd)")
        with self.assertRaisesRegex(TypeError, r"argument 2 of pow\(\): must be real number, not str"):
            power(1.0, "2")
        with self.assertRaisesRegex(TypeError, r"pow\(\) takes 2 arguments \(1 given\)"):
            power(1.0)
        with self.assertRaisesRegex(TypeError, "no keyword arguments"):
            power(1.0, exponent=2)
        with self.assertRaisesRegex(TypeError, r"argument 1 of abs\(\): 'float' object"):
            self.c.function("abs", "i(i)")(1.5)
        with self.assertRaisesRegex(TypeError, r"argument 1 of free\(\): must be an address on the node"):
            self.c.function("free", "v(p)")("x")
        with self.assertRaisesRegex(TypeError, "argument 1 of strlen"):
            self.c.function("strlen", "N(s)")(5)

    def test_wrong_signatures_are_refused(self):
        for signature in ("", "d", "d(k)", "d(d", "d(d)d", "(d)", "dd(d)", "s(d)", "d(v)", "d(" + "d" * 128 + ")"):
            with self.assertRaises(ValueError, msg=signature):
                self.math.function("sqrt", signature)
        with self.assertRaisesRegex(TypeError, "needs a signature"):
            self.math.function("sqrt")

    def test_wrong_types_are_refused(self):
        for kind, text in ((int, "many sizes"), (str, "str is no type"), (list, "list is no type"),
                           (ctypes.POINTER(ctypes.c_double), "farcall.InOut"), ("float128", "is no type"),
                           (ctypes.Structure, "is no type")):
            with self.assertRaisesRegex(TypeError, text):
                self.math.sqrt.argtypes = [kind]
        with self.assertRaisesRegex(TypeError, "In is no type"):
            self.math.sqrt.restype = farcall.In
        with self.assertRaisesRegex(TypeError, r"set cbrt.argtypes"):
            self.math.cbrt(1.0)
        with self.assertRaisesRegex(TypeError, "no annotation for 'return'"):
            _native.signature_of(lambda: None)

    def test_missing_functions_and_libraries_are_errors(self):
        with self.assertRaisesRegex(farcall.UnknownFunction, "no_such_function") as caught:
            self.math.function("no_such_function", "d(d)")
        self.assertEqual(caught.exception.node, 1)
        with self.assertRaisesRegex(OSError, "cannot load the library 'no_such.so'"):
            self.job[1].load("no_such.so")
        with self.assertRaises(AttributeError):
            self.math.__wrapped__

    def test_unloaded_library_has_no_functions(self):
        library = self.job[2].load("libm.so.6")
        root = library.function("sqrt", "d(d)")
        for _ in range(2000):  # more than a node can have
            again = self.job[2].load("libm.so.6")
            again.unload()
            self.job[2].load("libc.so.6")
        self.assertEqual(root(9.0), 3.0)
        library.unload()
        self.assertRaises(farcall.UnknownFunction, root, 9.0)
        self.assertRaises(farcall.UnknownFunction, library.unload)

    def test_errno_of_the_function_is_told(self):
        self.assertEqual(self.c.function("close", "i(i)")(-1), -1)
        self.assertEqual(farcall.get_errno(), 9)  # EBADF


class Buffers(NativeCase):
    """Pointers to bytes of the caller."""

    def test_bytes_are_copied_to_the_node(self):
        length = self.c.function("strlen", "N(s)")
        for text in (b"four", "four", bytearray(b"four"), memoryview(b"four"), b"four\0x", array.array("b", b"four")):
            self.assertEqual(length(text), 4)
        self.assertEqual(length(b"x" * 1_000_000), 1_000_000)

    def test_bytes_are_copied_back(self):
        change = self.c.function("memfrob", "p(xN)")
        data = bytearray(b"secret")
        change(data, len(data))
        self.assertEqual(data, bytes(each ^ 42 for each in b"secret"))
        numbers = array.array("H", [0, 1])
        self.c.function("memset", "p(xiN)")(numbers, 1, 2)
        self.assertEqual(list(numbers), [0x0101, 1])

    def test_out_buffers_are_only_copied_back(self):
        copy = self.c.function("memcpy", "p(osN)")
        for size in (3, 100_000):
            source, target = os.urandom(size), bytearray(b"x" * size)
            copy(target, source, size - 1)
            self.assertEqual(target, source[:-1] + b"\0")  # zero before the function

    def test_structures_of_ctypes_are_buffers(self):
        class Time(ctypes.Structure):
            _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

        got = Time()
        self.c.clock_gettime.argtypes = [ctypes.c_int, farcall.Out]
        self.assertEqual(self.c.clock_gettime(0, got), 0)
        self.assertGreater(got.seconds, 1_500_000_000)

    def test_functions_get_null_for_none(self):
        self.assertGreater(self.c.function("time", "l(x)")(None), 1_500_000_000)

    def test_directions_are_named_in_prototypes(self):
        self.c.memfrob.argtypes = [farcall.InOut, ctypes.c_size_t]
        self.c.memfrob.restype = ctypes.c_void_p
        data = bytearray(b"\0\1")
        self.c.memfrob(data, 2)
        self.assertEqual(data, b"*+")

    def test_read_only_buffers_are_not_written(self):
        with self.assertRaisesRegex(BufferError, r"argument 1 of memfrob\(\)"):
            self.c.function("memfrob", "p(xN)")(b"constant", 3)

    def test_addresses_on_the_node_are_numbers(self):
        address = self.c.function("malloc", "p(N)")(16)
        self.assertGreater(address, 0)
        self.c.function("strcpy", "p(ps)")(address, b"kept")
        self.assertEqual(self.c.function("strlen", "N(p)")(address), 4)

        class Memory:
            """An object with an address."""

        Memory.address = address
        self.assertEqual(self.c.function("strlen", "N(p)")(Memory()), 4)
        self.c.function("free", "v(p)")(address)

    def test_buffers_of_futures_are_filled_when_they_end(self):
        change = self.c.function("memfrob", "p(xN)")
        data = [bytearray([i]) for i in range(50)]
        futures = [change.submit(each, 1) for each in data]
        for future in futures:
            future.result()
        self.assertEqual([each[0] for each in data], [i ^ 42 for i in range(50)])

    def test_numpy_arrays_are_buffers(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        values = numpy.arange(4.0)
        self.c.function("memset", "p(xiN)")(values, 0, 16)
        self.assertEqual(values.tolist(), [0.0, 0.0, 2.0, 3.0])
        with self.assertRaises((ValueError, BufferError)):
            self.c.function("memset", "p(xiN)")(values[::2], 0, 8)


class Memory(NativeCase):
    """Memory of nodes."""

    def test_bytes_are_copied_there_and_back(self):
        memory = self.job[1].allocate(1000)
        self.assertEqual((len(memory), memory.node), (1000, self.job[1]))
        memory.put(bytes(range(250)) * 4)
        memory.put(array.array("B", b"xy"), 998)
        self.assertEqual(memory.get(offset=995), bytes([245, 246, 247]) + b"xy")
        got = bytearray(3)
        self.assertIs(memory.get(got, 1), got)
        self.assertEqual(got, b"\1\2\3")

    def test_functions_in_c_use_the_memory(self):
        memory = self.job[1].allocate(5)
        self.c.function("memset", "p(piN)")(memory, ord("a"), 4)
        memory.put(b"\0", 4)
        self.assertEqual(self.c.function("strlen", "N(p)")(memory), 4)
        self.assertEqual(self.c.function("strlen", "N(p)")(memory.address + 1), 3)

    def test_memory_is_copied_between_nodes(self):
        data = os.urandom(300_000)
        first, second = self.job[1].allocate(len(data)), self.job[2].allocate(len(data) + 1)
        first.put(data)
        first.copy_to(second)
        self.assertEqual(second.get(bytearray(len(data))), data)
        self.assertRaisesRegex(ValueError, "would end at byte .*, and the buffer has", second.copy_to, first)
        self.assertRaisesRegex(TypeError, "takes a farcall.Buffer", first.copy_to, bytearray(3))

    def test_time_limits_may_be_infinite(self):
        for limit in (math.inf, 1e30):
            self.assertEqual(len(self.job[1].allocate(5, timeout=limit)), 5)
        self.assertRaisesRegex(ValueError, "not NaN", self.job[1].allocate, 5, timeout=math.nan)

    def test_copies_beyond_the_memory_are_refused(self):
        memory = self.job[1].allocate(10)
        for wrong in (lambda: memory.put(bytes(11)), lambda: memory.put(b"x", 10), lambda: memory.get(bytearray(11)),
                      lambda: memory.get(bytearray(1), 1 << 62)):
            self.assertRaisesRegex(ValueError, "would end at byte .*, and the buffer has 10 bytes", wrong)
        self.assertRaises(ValueError, memory.get, offset=-1)
        self.assertRaises(TypeError, memory.put, 5)
        self.assertRaises(BufferError, memory.get, b"constant")
        self.assertEqual(memory.get(offset=10), b"")

    def test_memory_is_freed(self):
        memory = self.job[1].allocate(10)
        memory.release()
        memory.release()
        for use in (memory.get, lambda: memory.put(b""), lambda: memory.address):
            self.assertRaisesRegex(ValueError, "was released", use)
        with farcall.Job("shm", heap_bytes=1 << 26) as job:
            for _ in range(200):  # more than the node can have at a time
                job[1].allocate(1 << 24)
            with self.assertRaises(farcall.OutOfMemory) as caught:
                job[1].allocate(1 << 40)
            self.assertEqual(caught.exception.node, 1)
        self.assertRaises(ValueError, self.job[1].allocate, -1)
        self.assertRaises(OverflowError, self.job[1].allocate, (1 << 64) + 8)
        self.assertRaises(TypeError, self.job[1].allocate, "10")


class Futures(NativeCase):
    """submit() of functions in C."""

    def test_many_calls_are_under_way(self):
        root = self.math.function("sqrt", "d(d)")
        futures = [root.submit(float(i * i)) for i in range(5000)]
        self.assertEqual([future.result() for future in futures], [float(i) for i in range(5000)])

    def test_callbacks_and_waits_need_no_waiting_thread(self):
        root = self.math.function("sqrt", "d(d)")
        called = threading.Event()
        root.submit(4.0).add_done_callback(lambda future: called.set())
        self.assertTrue(called.wait(support.GUARD_SECONDS / 2))
        done, _ = farcall.wait([root.submit(1.0) for _ in range(10)])
        self.assertEqual(len(done), 10)
        self.assertEqual(root.submit(9.0).result(timeout=support.GUARD_SECONDS / 2), 3.0)

    def test_callback_may_wait_for_another_call(self):
        root = self.math.function("sqrt", "d(d)")
        got = []
        ready = threading.Event()

        def go_on(future):
            got.append(root.submit(future.result()).result())
            ready.set()

        root.submit(81.0).add_done_callback(go_on)
        self.assertTrue(ready.wait(support.GUARD_SECONDS / 2))
        self.assertEqual(got, [3.0])

    def test_wrong_arguments_are_errors_at_once(self):
        with self.assertRaisesRegex(TypeError, r"sqrt\(\) takes 1 argument"):
            self.math.function("sqrt", "d(d)").submit()

    def test_threads_may_call_at_the_same_time(self):
        root = self.math.function("sqrt", "d(d)")
        wrong = []

        def work():
            for i in range(200):
                if root(float(i * i)) != i or root.submit(float(i * i)).result() != i:
                    wrong.append(i)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Faults(support.TestCase):
    """Nodes that end, and calls that take too long."""

    def job(self, *arguments, **options):
        """Returns a job that ends with the test."""
        made = farcall.Job(*arguments, **options)
        self.addCleanup(made.end)
        return made

    def test_function_that_ends_its_node_fails(self):
        job = self.job("shm", crash_report="names")
        c = job[1].load("libc.so.6")
        root = job[1].load("libm.so.6").function("sqrt", "d(d)")
        pending = c.function("_exit", "v(i)").submit(3)
        with self.assertRaisesRegex(farcall.NodeFailed, "exited with status 3") as caught:
            pending.result()
        self.assertEqual(caught.exception.node, 1)
        self.assertRaises(farcall.NodeFailed, root, 1.0)
        self.assertRaises(farcall.NodeFailed, lambda: root.submit(1.0).result())
        self.assertRaises(farcall.NodeFailed, job[1].load, "libm.so.6")

    def test_calls_end_at_their_time_limit(self):
        job = self.job("shm", stop_timeout=0.1)
        sleep = job[1].load("libc.so.6").function("sleep", "I(I)", timeout=0.05)
        with self.assertRaises(farcall.Timeout) as caught:
            sleep(100)
        self.assertEqual((caught.exception.status, caught.exception.node), ("FC_TIMEOUT", 1))
        self.assertRaises(TimeoutError, sleep.submit(100).result)
        self.assertRaises(ValueError, job[1].function, "f", "d(d)", timeout=-1)
        self.assertRaises(TypeError, job[1].function, "f", "d(d)", timeout="1")

    def test_ctrl_c_ends_a_wait(self):
        job = self.job("shm", stop_timeout=0.1)
        sleep = job[1].load("libc.so.6").function("sleep", "I(I)")
        for wait in (lambda: sleep(100), lambda: sleep.submit(100).result()):
            threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
            begin = time.monotonic()
            self.assertRaises(KeyboardInterrupt, wait)
            self.assertLess(time.monotonic() - begin, support.GUARD_SECONDS / 2)

    def test_calls_after_the_end_are_refused(self):
        with farcall.Job("shm") as job:
            library = job[1].load("libm.so.6")
            root = library.function("sqrt", "d(d)")
        for call in (lambda: root(1.0), lambda: root.submit(1.0), lambda: library.function("sqrt", "d(d)")):
            self.assertRaisesRegex(RuntimeError, "the job has ended", call)


class Programs(support.TestCase):
    """Targets that are programs in C."""

    @classmethod
    def setUpClass(cls):
        cls.path = support.build_program(cls, "target.c")

    def setUp(self):
        super().setUp()
        self.job = farcall.Job(f"shm:2?program={self.path}")
        self.addCleanup(self.job.end)

    def test_handlers_are_called_by_name(self):
        scale = self.job[1].function("scale", "d(d)")
        self.assertEqual(scale(21.0), 42.0)
        self.assertEqual([scale.submit(float(i)).result() for i in range(10)], [2.0 * i for i in range(10)])

        def scale(value: farcall.f64) -> farcall.f64:  # noqa: F811
            raise NotImplementedError(value)

        self.assertEqual(self.job[2].function(scale)(4), 8.0)

    def test_arguments_and_results_are_structs(self):
        sample = self.job[1].function("sample", "bdi(bdi)")
        self.assertEqual(sample(-1, 2.5, 7), (1, -2.5, 8))

    def test_handlers_without_signature_get_bytes(self):
        echo = self.job[2].function("echo")
        for data in (b"", b"bytes", b"x" * 3_000_000):
            self.assertEqual(echo(data), data)
        self.assertEqual(self.job[1].function("echo", "is(is)")(5, b"tail"), (5, b"tail"))

    def test_errors_of_handlers_are_remote_errors(self):
        with self.assertRaisesRegex(farcall.RemoteError, "no such key") as caught:
            self.job[1].function("fail", "v(s)")("no such key")
        self.assertEqual(caught.exception.type, "LookupError")
        with self.assertRaisesRegex(farcall.RemoteError, "scale takes a double"):
            self.job[1].function("scale", "d(f)")(1)

    def test_replies_of_another_size_are_errors(self):
        with self.assertRaisesRegex(ValueError, 'has replied with 8 bytes, and "f" has 4'):
            self.job[1].function("scale", "f(d)")(1)

    def test_unknown_handlers_are_errors(self):
        with self.assertRaisesRegex(farcall.UnknownFunction, "no function 'nothing'"):
            self.job[1].function("nothing", "d(d)")(1.0)
        self.assertRaises(ValueError, self.job[1].function, "", "d(d)")
        self.assertRaises(ValueError, self.job[1].function, "scale", "d(x)")
        self.assertRaises(ValueError, self.job[1].function, "scale", "d(sd)")
        self.assertRaises(TypeError, self.job[1].function, 5)

    def test_handler_that_ends_its_node_fails(self):
        with self.assertRaisesRegex(farcall.NodeFailed, "exited with status 3"):
            self.job[1].function("die", "v()")()
        self.assertEqual(self.job[2].function("scale", "d(d)")(1.0), 2.0)
        self.assertEqual(self.job[1].restart().function("scale", "d(d)")(1.0), 2.0)

    def test_functions_of_the_program_are_called_by_symbols(self):
        program = self.job[1].load("")
        self.assertEqual(program.function("add", "i(ii)")(2, 3), 5)
        values = array.array("d", [1, 2])
        program.function("double_all", "v(xN)")(values, 16)
        self.assertEqual(list(values), [2.0, 4.0])

    def test_programs_in_c_run_no_python(self):
        with self.assertRaisesRegex(farcall.StartFailed, "node 1 runs no Python functions"):
            farcall.Executor(f"exec:{self.path}")
        with self.assertRaisesRegex(farcall.UnknownFunction, "node 1 runs no Python functions") as caught:
            self.job[1].call(os.getpid)
        self.assertEqual((caught.exception.node, caught.exception.status), (1, "FC_UNKNOWN_FUNCTION"))


if __name__ == "__main__":
    support.main()
