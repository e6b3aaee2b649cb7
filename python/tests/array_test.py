# SPDX-License-Identifier: Apache-2.0
"""Tests of arrays in the memory of workers."""

import array
import copy
import gc
import operator
import os
import pickle
import random
import signal
import struct
import threading
import unittest
import zlib

import data_tasks
import farcall
import support
from farcall import _array, _core

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")
MIB = 1 << 20


def numbers(shape):
    """Returns nested lists with the numbers from 0 on."""
    count = 1
    for length in shape:
        count *= length
    values = list(range(count))
    for length in reversed(shape[1:]):
        values = [values[i:i + length] for i in range(0, len(values), length)]
    return values


def listed(values):
    """Returns what get() or local() has returned as nested lists, or as a number."""
    return values.tolist() if hasattr(values, "tolist") else values


def sliced(values, key):
    """Returns a part of nested lists, as numpy would."""
    if not key:
        return values
    first, rest = key[0], key[1:]
    if isinstance(first, slice):
        return [sliced(value, rest) for value in values[first]]
    return sliced(values[first], rest)


class ArrayTest(support.TestCase):
    """Base of the tests."""

    def setUp(self):
        super().setUp()
        self.made = self.executor(2)

    def array(self, shape, dtype="i4", node=1):
        """Returns an array with the numbers from 0 on."""
        made = farcall.empty(shape, dtype, self.at(node))
        made.put(bytes(i % 256 for i in range(made.size)) if dtype == "u1" else numbers(made.shape))
        return made

    def at(self, node):
        """Returns a worker, or the program for 0."""
        return self.made if node == 0 else self.made[node - 1]

    def used(self, node):
        """Returns the number of blocks in use in a process."""
        if node == 0:
            return self.made._pool.job.blocks()[0]
        return self.on(node, data_tasks.blocks)[0]

    def on(self, node, function, *arguments):
        """Calls a function on a node. Workers are the nodes from 1 on."""
        return self.made.submit_to(node - 1, function, *arguments).result()


class Copies(ArrayTest):
    """put(), get() and copy_to()."""

    def test_elements_arrive(self):
        for dtype, code in (("f8", "d"), ("f4", "f"), ("i8", "q"), ("u8", "Q"), ("i4", "i"), ("u4", "I"), ("i2", "h"),
                            ("u2", "H"), ("i1", "b"), ("u1", "B")):
            there = farcall.empty(5, dtype, self.at(1))
            there.put(array.array(code, [1, 2, 3, 4, 100]))
            self.assertEqual(listed(there.get()), [1, 2, 3, 4, 100])
            out = array.array(code, [0] * 5)
            self.assertIs(there.get(out=out), out)
            self.assertEqual(out.tolist(), [1, 2, 3, 4, 100])
            self.assertEqual((there.dtype, there.itemsize, there.nbytes), (dtype, out.itemsize, 5 * out.itemsize))
        there = farcall.empty(2, "?", self.at(1))
        there.put([True, False])
        self.assertEqual(listed(there.get()), [True, False])

    def test_types_have_several_names(self):
        for name, dtype in (("d", "f8"), (float, "f8"), ("float32", "f4"), (int, "i8"), ("int16", "i2"), ("B", "u1"),
                            ("uint64", "u8"), (bool, "b1"), ("?", "b1"), ("<f8", "f8"), ("e", "f2"), ("q", "i8"),
                            (complex, "c16"), ("complex64", "c8")):
            self.assertEqual(farcall.empty(1, name, self.at(1)).dtype, dtype)

    @needs_numpy
    def test_types_of_numpy_are_known(self):
        for name in (numpy.float32, numpy.dtype("i2"), numpy.bool_, numpy.complex128, numpy.uint8, "f2",
                     numpy.longlong):
            there = farcall.empty((2, 3), name, self.at(1))
            values = numpy.arange(6).reshape(2, 3).astype(name)
            there.put(values)
            got = there.get()
            self.assertEqual(got.dtype, numpy.dtype(name))
            numpy.testing.assert_array_equal(got, values)
            self.assertEqual(there.local().dtype, numpy.dtype(name))
        for name in (">i4", "U3", object, "M8[s]", numpy.dtype([("a", "f8")]), numpy.longdouble):
            self.assertRaisesRegex(TypeError, "elements of the type", farcall.empty, 1, name, self.at(1))

    def test_numbers_and_lists_are_put(self):
        there = farcall.empty((2, 3), "i4", self.at(1))
        there.put(7)
        self.assertEqual(listed(there.get()), [[7] * 3] * 2)
        there.put([[1, 2, 3], [4, 5, 6]])
        there[1] = [7, 8, 9]
        there[:, 1] = 0
        self.assertEqual(listed(there.get()), [[1, 0, 3], [7, 0, 9]])
        there.put(struct.pack("6i", *range(6)))
        self.assertEqual(listed(there.get()), [[0, 1, 2], [3, 4, 5]])

    def test_slices_are_parts_of_the_array(self):
        there = self.array((4, 5))
        self.assertEqual(listed(there[1:3, ::2].get()), [[5, 7, 9], [10, 12, 14]])
        self.assertEqual(listed(there[::-1, 1].get()), [16, 11, 6, 1])
        self.assertEqual(listed(there[..., -1].get()), [4, 9, 14, 19])
        self.assertEqual(listed(there[2][1:4][::2].get()), [11, 13])
        self.assertEqual(listed(there[4:].get()), [])
        self.assertEqual(there[3, 4].get(), 19)
        self.assertEqual((there[1:3, ::2].shape, there[1:3, ::2].strides, len(there[:2])), ((2, 3), (20, 8), 2))
        there[::2, 1:3].put([[100, 101], [102, 103]])
        self.assertEqual(listed(there[:, 1].get()), [100, 6, 102, 16])

    def test_random_slices_have_the_right_elements(self):
        random_numbers = random.Random(5)
        shapes = [(100,), (17, 11), (5, 4, 6), (3, 2, 4, 5)]
        arrays = [(self.array(shape, node=i % 3), numbers(shape)) for i, shape in enumerate(shapes)]
        for i in range(10_000):
            there, values = arrays[i % len(arrays)]
            key = tuple(self.random_index(random_numbers, length) for length in there.shape)
            part = there[key]
            if part.size or numpy is not None:
                self.assertEqual(listed(part.get()), sliced(values, key), (there.shape, key))
            else:
                self.assertEqual(part.get().nbytes, 0)

    @staticmethod
    def random_index(random_numbers, length):
        """Returns an index or a slice of a dimension."""
        if random_numbers.random() < 0.3:
            return random_numbers.randrange(-length, length)
        ends = [random_numbers.choice((None, random_numbers.randrange(-length - 2, length + 3))) for _ in range(2)]
        return slice(*ends, random_numbers.choice((None, 1, 1, 2, 3, -1, -2)))

    def test_copies_go_from_node_to_node(self):
        for source, target in ((1, 2), (2, 1), (0, 1), (1, 0), (1, 1)):
            here, there = self.array((4, 6), node=source), self.array((4, 6), node=target)
            there.put(0)
            here.copy_to(there)
            self.assertEqual(listed(there.get()), numbers((4, 6)))
            there.put(0)
            here[1:3, ::2].copy_to(there[2:, 3:])
            self.assertEqual(listed(there[2:, 3:].get()), [[6, 8, 10], [12, 14, 16]])
            self.assertEqual(listed(there[:2].get()), [[0] * 6] * 2)

    def test_overlapping_copies_are_right(self):
        there = self.array(10)
        there[:-1].copy_to(there[1:])
        self.assertEqual(listed(there.get()), [0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        there.copy_to(there[::-1])
        self.assertEqual(listed(there.get()), [8, 7, 6, 5, 4, 3, 2, 1, 0, 0])

    def test_large_arrays_are_copied(self):
        data = data_tasks.pattern(24 * MIB + 7, 3)
        first, second = (farcall.empty(len(data), "u1", self.at(node)) for node in (1, 2))
        first.put(data)
        first.copy_to(second)
        out = bytearray(len(data))
        self.assertTrue(second.get(out) == data)
        self.assertTrue(bytes(second[3::5].get()) == data[3::5])

    def test_futures_tell_the_end_of_copies(self):
        there = farcall.empty(3 * MIB, "u1", self.at(1))
        data = data_tasks.pattern(3 * MIB, 1)
        done = there.put_async(data)
        self.assertIsNone(done.result())
        self.assertEqual(done.node, 1)
        out = bytearray(3 * MIB)
        futures = [there[i:].get_async() for i in range(20)] + [there.get_async(out)]
        self.assertTrue(all(bytes(future.result()) == data[i:] for i, future in enumerate(futures[:20])))
        self.assertIs(futures[20].result(), out)
        self.assertTrue(out == data)
        self.assertEqual(len(farcall.wait(futures).done), 21)

    def test_empty_arrays_and_arrays_without_dimensions(self):
        for shape in (0, (0, 3), (3, 0)):
            there = farcall.empty(shape, "f8", self.at(1))
            there.put(5.0)
            self.assertEqual((there.size, there.nbytes), (0, 0))
            self.assertEqual(len(listed(there.get())), there.shape[0] if numpy is not None else 0)
        there = farcall.empty((), "f8", self.at(1))
        there.put(2.5)
        self.assertEqual((there.get(), there.size, there.shape), (2.5, 1, ()))

    @needs_numpy
    def test_numpy_arrays_are_put(self):
        there = farcall.empty((30, 40), "f8", self.at(1))
        values = numpy.random.default_rng(1).random((30, 40))
        there.put(values)
        numpy.testing.assert_array_equal(there.get(), values)
        numpy.testing.assert_array_equal(there[3:9, ::-3].get(), values[3:9, ::-3])
        there[:, 5].put(values[:, 6].copy())
        numpy.testing.assert_array_equal(there.local()[:, 5], values[:, 6])


class Views(ArrayTest):
    """Use of the memory in place."""

    def test_local_views_share_the_memory(self):
        for node in (0, 1):
            there = self.array(6, node=node)
            view = there.local()
            view[2] = 50
            self.assertEqual(listed(there.get()), [0, 1, 50, 3, 4, 5])
            there[4].put(60)
            self.assertEqual(view[4], 60)
            self.assertFalse(memoryview(view).readonly)

    def test_workers_get_views_of_arguments(self):
        expected = "memoryview" if numpy is None else "ndarray"
        for node in (0, 1, 2):
            there = self.array(100, "u1", node)
            for target in (1, 2):
                self.assertEqual(self.on(target, data_tasks.fill, there, 10 * node + target), expected)
                self.assertEqual(listed(there.get()), [10 * node + target] * 100)

    def test_slices_are_arguments(self):
        there = self.array((4, 5))
        name, values = self.made.function(data_tasks.describe)(there[1:3, ::2])
        self.assertEqual((name, values), ("memoryview" if numpy is None else "ndarray", [[5, 7, 9], [10, 12, 14]]))

    @needs_numpy
    def test_tasks_pass_arrays_on(self):
        there = self.array(3)
        for _ in range(4):
            self.assertEqual(self.made.submit(data_tasks.names, self.made, there).result()[1], [0, 1, 2])

    def test_arrays_are_in_lists_and_keywords(self):
        there = self.array(3)
        self.assertEqual(self.made.submit(data_tasks.sum_of, [there, {"a": there}], more=there).result(), 9)

    def test_results_are_arrays(self):
        made = self.made.submit(data_tasks.made_here, 5, 9).result()
        self.assertIsInstance(made, farcall.Array)
        self.assertEqual(listed(made.get()), [9] * 5)
        made.put(3)
        self.assertEqual(self.made.submit(data_tasks.describe, made).result()[1], [3] * 5)
        self.assertEqual(self.made.submit(operator.getitem, [1, 2], 1).result(), 2)

    def test_buffer_protocol(self):
        there = self.array((2, 3))
        view = memoryview(there)
        self.assertEqual((view.format, view.shape, view.strides, view.readonly), ("i", (2, 3), (12, 4), False))
        self.assertEqual(view[1, 2], 5)
        self.assertFalse(memoryview(there[:, ::2]).c_contiguous)
        self.assertRaises(BufferError, struct.unpack_from, "i", there[:, ::2])
        readonly = there.toreadonly()
        self.assertTrue(memoryview(readonly).readonly)
        self.assertRaises(ValueError, readonly.put, 1)
        self.assertRaises(ValueError, there.copy_to, readonly)
        self.assertRaises((TypeError, BufferError), struct.pack_into, "i", readonly, 0, 1)

    @needs_numpy
    def test_numpy_and_dlpack_share_the_memory(self):
        there = self.array((3, 4), "f4")
        expected = numpy.arange(12, dtype="f4").reshape(3, 4)
        for part, key in ((there, ()), (there[::2, 1:], (slice(None, None, 2), slice(1, None)))):
            interface = type("Interface", (), {"__array_interface__": part.__array_interface__, "owner": part})()
            for view in (numpy.asarray(part), numpy.from_dlpack(part), numpy.asarray(interface),
                         part.__array__(copy=False)):
                numpy.testing.assert_array_equal(view, expected[key])
                self.assertTrue(numpy.shares_memory(view, part.local()))
            numpy.testing.assert_array_equal(part.__array__("f8"), expected[key])
        self.assertFalse(numpy.shares_memory(there.__array__(copy=True), there.local()))
        self.assertFalse(numpy.from_dlpack(there.toreadonly()).flags.writeable)
        self.assertFalse(there.toreadonly().local().flags.writeable)
        self.assertEqual(numpy.sum(there), 66)

    def test_dlpack_capsules_keep_the_memory(self):
        there = self.array(4, "f8")
        self.assertEqual(there.__dlpack_device__(), (1, 0))
        capsules = [there.__dlpack__(), there.__dlpack__(max_version=(1, 0)), there.__dlpack__(max_version=(0, 8))]
        self.assertEqual(["dltensor_versioned" in repr(capsule) for capsule in capsules], [False, True, False])
        there.free()
        self.assertEqual(self.used(1), 1)
        del capsules
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))
        readonly = self.array(4).toreadonly()
        readonly.__dlpack__(max_version=(1, 2))
        self.assertRaisesRegex(BufferError, "read-only", readonly.__dlpack__)
        for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
            self.assertRaises(BufferError, readonly.__dlpack__, max_version=(1, 0), **wrong)

    @needs_numpy
    def test_results_in_memory_of_arrays_can_be_views(self):
        copied = self.on(1, data_tasks.view_made_here, 1000)
        copied[0] = 7.0
        self.assertEqual(self.on(1, data_tasks.first_of_kept), 1.5)
        self.on(1, data_tasks.forget)
        with farcall.zero_copy():
            shared = self.on(1, data_tasks.view_made_here, 1000)
        shared[0] = 7.0
        self.assertEqual(self.on(1, data_tasks.first_of_kept), 7.0)
        self.on(1, data_tasks.forget)
        self.assertEqual(self.used(1), 1)
        self.assertEqual((shared[1], shared.shape, shared.flags.writeable), (1.5, (1000,), True))
        del shared
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))


class Lifetime(ArrayTest):
    """Memory is freed when nothing uses it any more."""

    def test_memory_is_freed_with_the_last_slice(self):
        for node in (0, 1):
            there = self.array(MIB, "u1", node)
            part = there[5:10]
            self.assertEqual(self.used(node), 1)
            del there
            self.assertEqual(self.used(node), 1)
            self.assertEqual(listed(part.get()), [5, 6, 7, 8, 9])
            del part
            self.assertTrue(support.wait_until(lambda n=node: self.used(n) == 0))

    def test_views_keep_the_memory(self):
        there = self.array(MIB, "u1")
        view = there.local()
        del there
        gc.collect()
        self.assertEqual(self.used(1), 1)
        self.assertEqual(listed(view[:3]), [0, 1, 2])
        del view
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))

    def test_workers_keep_the_memory(self):
        there = self.array(MIB, "u1", 1)
        self.on(2, data_tasks.keep, there)
        del there
        self.assertEqual(self.used(1), 1)
        self.on(2, data_tasks.forget)
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))

    def test_calls_under_way_keep_the_memory(self):
        with support.TemporaryFolder() as folder:
            gate = os.path.join(folder, "gate")
            calls = [self.made.submit(data_tasks.wait_for, gate, farcall.empty(1000, "u1", self.at(i % 3)))
                     for i in range(20)]
            others = [farcall.empty(1000, "u1", self.at(i % 3)) for i in range(20)]
            for other in others:
                other.put(1)
            with open(gate, "w", encoding="ascii"):
                pass
            self.assertEqual([call.result() for call in calls], [1000] * 20)
            del others, other
            for node in range(3):
                self.assertTrue(support.wait_until(lambda n=node: self.used(n) == 0))

    def test_memory_of_a_worker_that_dies_is_freed_elsewhere(self):
        there = self.array(MIB, "u1", 0)
        with self.assertRaises(farcall.NodeFailed):
            self.made.submit(data_tasks.keep_and_die, there).result()
        self.assertEqual(listed(there[:2].get()), [0, 1])
        self.assertEqual(self.used(0), 1)
        del there
        self.assertTrue(support.wait_until(lambda: self.used(0) == 0))

    def test_freed_arrays_cannot_be_used(self):
        there = self.array(10)
        part = there[2:]
        view = there.local()
        there.free()
        there.free()
        for use in (there.get, part.get, lambda: there.put(1), there.local, lambda: memoryview(there),
                    lambda: part.copy_to(there), there.__dlpack__, lambda: pickle.dumps(there, 5),
                    lambda: there.get_async().result()):
            self.assertRaisesRegex(ValueError, "the array was freed", use)
        self.assertIn("freed", repr(part))
        self.assertEqual(listed(view), list(range(10)))
        self.assertEqual(self.used(1), 1)
        del view
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))

    def test_context_frees_the_array(self):
        with self.array(10) as there:
            self.assertEqual(there[9].get(), 9)
        self.assertRaises(ValueError, there.get)
        self.assertEqual(self.used(1), 0)

    def test_views_outlive_the_executor(self):
        with farcall.Executor(1) as executor:
            there = farcall.empty(1000, "i4", executor[0])
            own = farcall.empty(1000, "i4", executor)
            there.put(5)
            own.put(6)
            view, own_view = there.local(), own.local()
        for array_, view_, value in ((there, view, 5), (own, own_view, 6)):
            view_[3] = 100
            self.assertEqual([view_[3], view_[999]], [100, value])
            self.assertRaisesRegex(RuntimeError, "has ended", array_.get)
            self.assertRaisesRegex(RuntimeError, "has ended", array_.put, 1)
            self.assertEqual(listed(array_.local()[:4]), [value] * 3 + [100])

    def test_views_outlive_a_killed_worker(self):
        there, other = self.array(1000, node=1), self.array(1000, node=2)
        view = there.local()
        pid = self.on(1, data_tasks.pid)
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.wait_until(lambda: 1 not in self.made._pool.job.alive()))
        view[1] = 8
        self.assertEqual(listed(view[:3]), [0, 8, 2])
        for use in (there.get, lambda: there.put(1), lambda: there.copy_to(other), lambda: other.copy_to(there),
                    lambda: self.made._pool.job.memory(1, 8), lambda: there.get_async().result()):
            with self.assertRaises(farcall.NodeFailed) as caught:
                use()
            self.assertEqual(caught.exception.node, 1)
        self.assertEqual(listed(other[5].get()), 5)
        del view
        self.assertEqual(listed(there.local()[:3]), [0, 8, 2])

    def test_mappings_are_unmapped_with_the_last_view(self):
        # In a process without other executors, which may map memory at any time.
        self.assertEqual(support.run_program("""
            import farcall

            def mappings():
                with open("/proc/self/maps", encoding="ascii") as file:
                    return sum("/memfd:farcall-" in line for line in file)

            with farcall.Executor(1) as executor:
                there = farcall.empty(1000, "i4", executor[0])
                there.put(3)
                view = there.local()
            print(mappings(), view[5])
            del view, there, executor
            print(mappings())
            """), (0, "1 3\n0\n", ""))

    def test_many_arrays_come_and_go(self):
        random_numbers = random.Random(3)
        arrays = []
        for i in range(3000):
            size = random_numbers.randrange(1, 5000)
            there = farcall.empty(size, "u1", self.at(i % 3))
            there.put(i % 251)
            arrays.append((there, size, i % 251))
            if len(arrays) > 50:
                there, size, value = arrays.pop(random_numbers.randrange(50))
                self.assertEqual(bytes(there.get()), bytes([value]) * size)
        del there
        self.assertEqual(sum(self.used(node) for node in range(3)), 50)
        del arrays
        for node in range(3):
            self.assertTrue(support.wait_until(lambda n=node: self.used(n) == 0))


class BadInput(ArrayTest):
    """Errors say what is wrong."""

    def test_wrong_shapes_and_types_are_refused(self):
        empty, node = farcall.empty, self.at(1)
        self.assertRaisesRegex(ValueError, "no negative", empty, -1, "f8", node)
        self.assertRaisesRegex(ValueError, "no negative", empty, (3, -2), "f8", node)
        self.assertRaisesRegex(TypeError, "whole numbers", empty, 2.5, "f8", node)
        self.assertRaisesRegex(TypeError, "whole numbers", empty, ("3",), "f8", node)
        self.assertRaisesRegex(ValueError, "32 dimensions", empty, (1,) * 33, "f8", node)
        for dtype in ("x", "f3", "i16", "", None, 8, "text", "float128", object, str):
            self.assertRaisesRegex(TypeError, "elements of the type", empty, 1, dtype, node)
        self.assertRaises(MemoryError, empty, 1 << 60, "f8", node)
        self.assertRaises(MemoryError, empty, 1 << 41, "u1", node)
        self.assertRaises(MemoryError, empty, 1 << 41, "u1", self.at(0))

    def test_wrong_places_are_refused(self):
        self.assertRaisesRegex(ValueError, "node=executor", farcall.empty, 3)
        self.assertRaisesRegex(TypeError, "node must be", farcall.empty, 3, "f8", 1)
        self.assertRaisesRegex(TypeError, "node must be", farcall.empty, 3, "f8", farcall)
        self.assertRaises(IndexError, self.made.__getitem__, 2)
        self.assertRaises(TypeError, self.made.__getitem__, "1")

    def test_wrong_values_are_refused(self):
        there = self.array((2, 3))
        self.assertRaisesRegex(ValueError, "shape", there.put, array.array("i", [1, 2]))
        self.assertRaisesRegex(ValueError, "shape", there.put, array.array("i", range(6)))
        self.assertRaises(ValueError, there.put, [1, 2])
        self.assertRaises(ValueError, there.put, [[1, 2], [3, 4]])
        self.assertRaisesRegex(TypeError, "type", there[0].put, array.array("d", [1, 2, 3]))
        self.assertRaisesRegex(TypeError, "type", there[0].put, array.array("I", [1, 2, 3]))
        self.assertRaises((TypeError, ValueError), there.put, "text")
        self.assertRaises((TypeError, ValueError), there[0].put, object())
        self.assertRaises((TypeError, ValueError, OverflowError), there[0].put, [1, 2, 1 << 40])
        self.assertRaisesRegex(TypeError, "type", there.put, b"too short")
        whole = memoryview(array.array("i", range(6)))
        self.assertRaisesRegex(ValueError, "do not follow", there[0].put, whole[::2])
        self.assertEqual(listed(there.get()), numbers((2, 3)))

    def test_wrong_outputs_are_refused(self):
        there = self.array(3)
        whole = memoryview(array.array("i", range(6)))
        self.assertRaisesRegex(ValueError, "do not follow", there.get, whole[::2])
        self.assertRaisesRegex(ValueError, "read-only", there.get, bytes(12))
        self.assertRaisesRegex(ValueError, "shape", there.get, whole)
        self.assertRaisesRegex(TypeError, "type", there.get, array.array("d", [0] * 3))
        self.assertRaisesRegex(TypeError, "buffer", there.get, [0, 0, 0])
        self.assertRaisesRegex(TypeError, "buffer", there.get_async, 5)

    def test_wrong_indices_are_refused(self):
        there = self.array((2, 3))
        for key in (2, -3, (0, 3), (0, 0, 0), (..., ...)):
            self.assertRaises(IndexError, there.__getitem__, key)
        for key in ("a", 1.5, [0, 1], None):
            self.assertRaises(TypeError, there.__getitem__, key)
        self.assertRaises(ValueError, there.__getitem__, slice(0, 2, 0))
        self.assertRaises(TypeError, len, there[0, 0])

    def test_wrong_copies_are_refused(self):
        there = self.array((2, 3))
        self.assertRaises(TypeError, there.copy_to, bytearray(24))
        self.assertRaisesRegex(ValueError, "shapes or types", there.copy_to, self.array((3, 2)))
        self.assertRaisesRegex(ValueError, "shapes or types", there.copy_to, self.array((2, 3), "i8"))
        with farcall.Executor(1) as other:
            elsewhere = farcall.empty((2, 3), "i4", other[0])
            self.assertRaisesRegex(ValueError, "different executors", there.copy_to, elsewhere)
            future = other.submit(data_tasks.describe, there)
            self.assertRaisesRegex(ValueError, "its own executor", future.result)
            self.assertRaisesRegex(ValueError, "its own executor", other.function(len), there)
            self.assertEqual(other.submit(len, "three").result(), 5)

    def test_arrays_are_not_pickled_otherwise(self):
        there = self.array(3)
        self.assertRaisesRegex(TypeError, "cannot|not be pickled", pickle.dumps, there, 4)
        self.assertRaisesRegex(TypeError, "only as an argument", pickle.loads, pickle.dumps(there, 5))
        self.assertRaises(TypeError, copy.copy, there)

    def test_views_of_the_core_check_their_layout(self):
        memory = self.made._pool.job.memory(1, 100)
        for offset, item, shape, strides in ((0, 8, (13,), (8,)), (-8, 8, (1,), (8,)), (0, 8, (2,), (-8,)),
                                             (96, 8, (1,), (8,)), (0, 1, (101,), (1,))):
            self.assertRaises(ValueError, _core.View, memory, offset, "d", item, shape, strides, False)
        self.assertRaises(TypeError, _core.View, bytearray(8), 0, "d", 8, (1,), (8,), False)
        self.assertRaises(TypeError, _core.View, memory, 0, "d", 8, (1, 1), (8,), False)

    def test_arrays_without_workers(self):
        executor = self.executor(0)
        there = farcall.empty(3, "i4", executor)
        there.put([1, 2, 3])
        self.assertEqual(listed(there.get()), [1, 2, 3])
        self.assertEqual(executor.submit(data_tasks.describe, there).result(),
                         ("memoryview" if numpy is None else "ndarray", [1, 2, 3]))

    @support.needs_cloudpickle
    def test_closures_with_arrays_are_sent_with_each_call(self):
        there = self.array(4)
        last = lambda: there[3]  # noqa: E731 # pylint: disable=unnecessary-lambda-assignment
        self.assertEqual([self.made.submit(last).result() for _ in range(4)], [3] * 4)
        self.assertRaisesRegex(TypeError, "pass the array as an argument", self.made.function, last)


class OtherMachines(ArrayTest):
    """Arrays that cannot be mapped, as if the workers were on other machines."""

    def setUp(self):
        super().setUp()
        _core.set_sharing(False)
        self.addCleanup(_core.set_sharing, True)
        self.made = self.executor(2, initializer=data_tasks.share, initargs=(False,))

    def test_elements_are_copied(self):
        there, other = self.array((4, 5)), self.array((4, 5), node=2)
        self.assertEqual(listed(there[1:3, ::2].get()), [[5, 7, 9], [10, 12, 14]])
        there[::-1, 3].put([1, 2, 3, 4])
        self.assertEqual(listed(there[:, 3].get()), [4, 3, 2, 1])
        there[1:].copy_to(other[:-1])
        self.assertEqual(listed(other[0].get()), listed(there[1].get()))
        self.assertEqual(listed(there.get_async().result()), listed(there.get()))
        self.assertFalse(hasattr(there, "__array_interface__"))
        for use in (there.local, lambda: memoryview(there), there.__dlpack__):
            self.assertRaisesRegex(BufferError, "on another machine", use)

    @needs_numpy
    def test_numpy_gets_a_copy(self):
        there = self.array(4, "f8")
        numpy.testing.assert_array_equal(numpy.asarray(there), [0, 1, 2, 3])
        self.assertRaises(ValueError, there.__array__, copy=False)

    def test_arguments_are_views_or_copies(self):
        there = self.array(10, "u1", 1)
        self.on(2, data_tasks.fill, there, 7)
        self.assertEqual(listed(there.get()), list(range(10)))
        self.on(1, data_tasks.fill, there, 7)
        self.assertEqual(listed(there.get()), [7] * 10)

    def test_memory_is_freed(self):
        there = self.array(MIB, "u1", 1)
        self.on(2, data_tasks.fill, there, 7)
        self.assertEqual(self.used(1), 1)
        del there
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))
        with self.array(10) as other:
            self.assertEqual(other[3].get(), 3)
        self.assertTrue(support.wait_until(lambda: self.used(1) == 0))
        self.assertRaises(ValueError, other.get)

    def test_arrays_cannot_be_results(self):
        future = self.made.submit(data_tasks.made_here, 3, 1)
        self.assertRaisesRegex(ValueError, "only on the machine of the caller", future.result)


class Threads(ArrayTest):
    """Arrays and copies that several threads use."""

    def test_threads_make_calls_and_arrays(self):
        errors = []
        checksum = self.made.function(data_tasks.checksum)

        def work(seed):
            random_numbers = random.Random(seed)
            try:
                for i in range(60):
                    data = data_tasks.pattern(random_numbers.choice((1000, 70_000, 300_000, MIB)), i)
                    there = farcall.empty(len(data), "u1", self.at(random_numbers.randrange(3)))
                    there.put(data)
                    future = self.made.submit(data_tasks.same, pickle.PickleBuffer(bytearray(data)))
                    results = [there.get(bytearray(len(data))), there.get_async(bytearray(len(data))).result(),
                               future.result()]
                    sums = {zlib.crc32(result) for result in results}
                    if sums | {checksum(there), checksum(data)} != {zlib.crc32(data)}:
                        errors.append(seed)
                    self.made._pool.job.blocks()
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        for node in range(3):
            self.assertTrue(support.wait_until(lambda n=node: self.used(n) == 0))

    def test_arrays_can_be_made_at_once(self):
        for _ in range(20):
            with farcall.Executor(1) as executor, farcall.empty(10, "i4", executor[0]) as there:
                there.put(4)
                self.assertEqual(there[5].get(), 4)

    def test_copy_thread_starts_again_in_a_forked_child(self):
        there = self.array(3)
        self.assertEqual(listed(there.get_async().result()), [0, 1, 2])
        pid = data_tasks.fork()
        if pid == 0:
            os._exit(0 if _array._copy_thread._orders is None else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)


if __name__ == "__main__":
    support.main()
