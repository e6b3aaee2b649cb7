# SPDX-License-Identifier: Apache-2.0
"""Tests of bytes that broken or hostile processes of a job send."""

import os
import pickle
import struct
import time

import farcall
import support
import tasks
from farcall import _calls, _core

# The C library of workers overwrites memory that they free, so that a use of it is noticed.
os.environ.setdefault("MALLOC_PERTURB_", "165")

# Structures of core.h.
PREFIX = struct.Struct("<QQ")
HEADER = struct.Struct("<BBHI")
PLACE = struct.Struct("<QQQQII")
TICKET = struct.Struct("<QQ")
PLAIN, PICKLED, UNDEFINED, RETURNED, STOPPED = 0, 1, 3, 4, 5
LONG_BYTES = 9
HEAD_BYTES = 64
NUMBER = 77  # of a function
MALFORMED = "a message of another node is malformed"


def slot(place, ticket=0, is_reference=0):
    return place + TICKET.pack(ticket, is_reference)


def message(kind, body, slots=(), values=0):
    return HEADER.pack(kind, 0, values, len(slots)) + b"".join(slots) + body


def with_slot(place, ticket=0, is_reference=0):
    """Returns a message whose only value is the bytes of a slot."""
    return message(PLAIN, struct.pack("<BI", LONG_BYTES, 0), [slot(place, ticket, is_reference)], 1)


def bad_places(place):
    """Returns places that differ from a valid one, so that some of their bytes are outside of the block."""
    at, size, block, whole, node, index = PLACE.unpack(place)
    return [PLACE.pack(*each, node, index) for each in (
        (at - 1, size, block, whole), (block, size, block, whole), (at + (1 << 40), size, block, whole),
        (block - 4096, size, block, whole), (at, whole, block, whole), (at, (1 << 64) - 1, block, whole),
        (block + whole + 1, 0, block, whole), (at, 1, block, HEAD_BYTES), (at, 0, block, HEAD_BYTES - 1),
        (at, size, block, (1 << 64) - 1), (at + 1, size, block + 1, whole - 1))]


class Workers(support.TestCase):
    """Bytes that a worker gets. The worker survives them."""

    def setUp(self):
        super().setUp()
        self.made = self.executor(1)
        self.pid = self.made.submit(os.getpid).result()
        self.job = self.made._pool.job
        self.send("define", struct.pack("<Q", NUMBER) + pickle.dumps(tasks.same))

    def send(self, name, data):
        """Sends bytes to a handler of the worker, and returns its reply."""
        return _core.Native(self.job, 1, None, f"farcall.python.{name}", "s(s)", -1, self.made)(data)

    def run_raw(self, data, number=NUMBER):
        """Sends a call, and returns the kind of the reply, and the exception as text or the bytes."""
        reply = self.send("run", PREFIX.pack(number, 0) + data)
        kind, _, _, slots = HEADER.unpack_from(reply)
        body = reply[HEADER.size:]
        return kind, pickle.loads(body)[2] if kind == 2 and not slots else body

    def new_place(self, size):
        return self.send("allocate", struct.pack("<Q", size))

    def put(self, place, offset, data):
        """Writes to a block of the worker."""
        _, _, block, whole, node, _ = PLACE.unpack(place)
        _core.put(self.job, struct.pack("<QQII", block, whole, node, 0), offset, data, -1)

    def tearDown(self):
        self.assertEqual(self.made.submit(os.getpid).result(), self.pid)

    def test_messages_that_end_too_early_are_errors(self):
        whole = message(PLAIN, b"", [slot(PLACE.pack(0, 1, 0, 0, 0, 0))] * 2, 1)
        for end in range(len(whole)):
            with self.subTest(end=end):
                self.assertEqual(self.run_raw(whole[:end])[0], 2)
        with self.assertRaisesRegex(farcall.RemoteError, "without the number of a function"):
            self.send("run", b"1234567")

    def test_counts_of_slots_may_be_anything(self):
        for count in (1, 1 << 20, 1 << 31, (1 << 32) - 1):
            self.assertIn(MALFORMED, self.run_raw(HEADER.pack(PICKLED, 0, 0, count) + b"x" * 20)[1])

    def test_pickles_that_are_no_arguments_are_errors(self):
        for value in (5, None, (), (1,), ((), {}, 1), (1, 2), ((1,), 5), ([1], None), [(1,), None], ((1,), [1])):
            with self.subTest(value=value):
                self.assertIn(MALFORMED, self.run_raw(message(PICKLED, pickle.dumps(value)))[1])
        self.assertEqual(self.run_raw(message(PICKLED, pickle.dumps(((1,), None))))[0], PLAIN)

    def test_slots_stay_in_the_message(self):
        begin = PREFIX.size + HEADER.size + PLACE.size + TICKET.size
        for at, size in ((begin, 6), (begin + 5, 1), ((1 << 64) - 1, 2), (1 << 63, 1), (begin, (1 << 64) - 1)):
            with self.subTest(at=at, size=size):
                self.assertIn(MALFORMED, self.run_raw(with_slot(PLACE.pack(at, size, 0, 0, 0, 0)))[1])

    def test_slots_stay_in_their_blocks(self):
        place = self.new_place(100)
        self.put(place, 0, struct.pack("<QI", 5, 1))  # a ticket, and the hold of the message
        for each in bad_places(place):
            with self.subTest(place=PLACE.unpack(each)):
                self.assertIn(MALFORMED, self.run_raw(with_slot(each, 5))[1])
        self.assertIn("was dropped by its sender", self.run_raw(with_slot(place, 6))[1])
        self.put(place, HEAD_BYTES, b"content".ljust(100))
        self.assertIn(b"content", self.run_raw(with_slot(place, 5))[1])

    def test_references_stay_in_their_blocks(self):
        there, place = self.new_place(100), self.new_place(PLACE.size)
        for each in (*bad_places(there), bytes(PLACE.size)):
            with self.subTest(place=PLACE.unpack(each)):
                self.put(place, 0, struct.pack("<QI", 5, 2))
                self.put(place, HEAD_BYTES, each)
                self.assertIn(MALFORMED, self.run_raw(with_slot(place, 5, 1))[1])
        self.put(place, 0, struct.pack("<QI", 5, 2))
        at, size, *rest = PLACE.unpack(place)
        self.assertIn(MALFORMED, self.run_raw(with_slot(PLACE.pack(at, size - 1, *rest), 5, 1))[1])

    def test_references_in_messages_stay_in_their_blocks(self):
        begin = PREFIX.size + HEADER.size + PLACE.size + TICKET.size + 5
        there = self.new_place(100)
        for each in bad_places(there):
            with self.subTest(place=PLACE.unpack(each)):
                inline = with_slot(PLACE.pack(begin, PLACE.size, 0, 0, 0, 0), 0, 1) + each
                self.assertIn(MALFORMED, self.run_raw(inline)[1])

    def test_notes_are_written_only_to_memory_of_the_host(self):
        for address in (0, 0x1000, 1 << 63, (1 << 64) - 8, PLACE.unpack(self.new_place(1000))[2] + 1):
            with self.assertRaisesRegex(farcall.RemoteError, "notes of calls need memory"):
                self.send("notes", struct.pack("<Q", address))
        with self.assertRaisesRegex(farcall.RemoteError, "notes of calls need memory"):
            self.send("notes", b"")

    def test_sizes_of_blocks_may_be_anything(self):
        for size in ((1 << 46) + 1, 1 << 63, (1 << 64) - 1):
            with self.assertRaisesRegex(farcall.RemoteError, "MemoryError: a block cannot have so many bytes"):
                self.new_place(size)
        self.assertRaisesRegex(farcall.RemoteError, "MemoryError", self.new_place, 1 << 46)

    def test_blocks_that_do_not_exist_are_not_collected(self):
        place = self.new_place(1000)
        for each in (*bad_places(place), PLACE.pack(0, 0, 0, 0, 0, (1 << 32) - 1)):
            self.assertEqual(self.send("collect", each + struct.pack("<QiI", 0, -1, 0)), b"")
        self.assertEqual(self.send("collect", b"short"), b"")

    def test_definition_may_be_removed_while_it_is_loaded(self):
        # Longer memory is overwritten when it is freed.
        definition = pickle.dumps(tasks.UndefinesItself(NUMBER + 1)) + bytes(4000)
        for _ in range(3):
            self.send("define", struct.pack("<Q", NUMBER + 1) + definition)
            kind, body = self.run_raw(message(PLAIN, struct.pack("<Bq", 3, -5), (), 1), NUMBER + 1)
            self.assertEqual((kind, body), (PLAIN, struct.pack("<Bq", 3, 5)))
        self.assertEqual(self.run_raw(message(PLAIN, b""), NUMBER + 1)[0], UNDEFINED)


class Hosts(support.TestCase):
    """Bytes that a host gets from a program in C."""

    @classmethod
    def setUpClass(cls):
        cls.path = support.build_program(cls, "hostile_target.c")

    def setUp(self):
        super().setUp()
        self.made = farcall.Job(f"shm:1?program={self.path}")
        self.addCleanup(self.made.end)
        self.job = self.made.core
        self.job.meet(1)
        self.job.choose(1, True)
        self.reply = _core.Function(self.job, NUMBER, b"", 1)
        self.memory = self.job.memory(0, 1000)
        self.place = bytes(memoryview(self.memory.reference()))

    def test_results_may_be_any_bytes(self):
        self.assertEqual(self.reply(message(PLAIN, struct.pack("<Bq", 3, -5))), -5)
        whole = message(PLAIN, struct.pack("<BI", LONG_BYTES, 0), [slot(PLACE.pack(64, 5, 0, 0, 0, 0))])
        for end in range(1, len(whole)):
            self.assertRaises(ValueError, self.reply, whole[:end])
        self.assertEqual(self.reply(whole), whole[64:])
        for kind in (6, 255):
            self.assertRaisesRegex(ValueError, MALFORMED, self.reply, message(kind, b""))

    def test_results_stay_in_their_blocks(self):
        begin = HEADER.size + PLACE.size + TICKET.size + 5
        for each in bad_places(self.place):
            with self.subTest(place=PLACE.unpack(each)):
                self.assertRaisesRegex(ValueError, MALFORMED, self.reply, with_slot(each, 1))
                self.assertRaisesRegex(ValueError, MALFORMED, self.reply,
                                       with_slot(PLACE.pack(begin, PLACE.size, 0, 0, 0, 0), 0, 1) + each)
        with self.assertRaisesRegex(RuntimeError, "was dropped by its sender"):
            self.reply(with_slot(self.place, 1))

    def test_workers_that_refuse_a_call_for_ever_are_errors(self):
        for kind in (UNDEFINED, RETURNED, STOPPED):
            with self.assertRaisesRegex(RuntimeError, "a worker is broken: it refuses"):
                self.reply(message(kind, b""))

    def test_descriptions_of_exceptions_may_be_anything(self):
        for value in (None, 5, (), (1, 2, 3, 4, 5), (None, "a", "b", 1), (pickle.dumps(5), "a", "b", 1, "c")):
            with self.subTest(value=value), self.assertRaises(Exception):
                self.reply(message(2, pickle.dumps(value)))

    def test_memory_of_another_node_is_checked(self):
        store = self.made[1].function("test.store", "v(s)")
        for each in (b"", self.place[:-1], self.place, *bad_places(self.place)):
            store(each)
            with self.assertRaisesRegex(RuntimeError, "node 1 has replied with invalid memory"):
                self.job.memory(1, 1000)
        at, size, block, whole, _, index = PLACE.unpack(self.place)
        store(PLACE.pack(at, size, block, whole, 1, index))
        self.assertRaises(RuntimeError, self.job.memory, 1, size + 1)

    def test_texts_of_errors_may_be_any_bytes(self):
        with self.assertRaises(farcall.RemoteError) as caught:
            self.made[1].function("test.fail", "v(s)")(b"")
        self.assertIn("no text\N{REPLACEMENT CHARACTER}", str(caught.exception))
        self.assertEqual(caught.exception.type, "Error\N{REPLACEMENT CHARACTER}")


class Refusals(support.TestCase):
    """Calls that a worker refuses again and again."""

    def test_call_of_a_function_that_no_worker_learns_fails(self):
        executor = self.executor(1)
        pool = executor._pool
        sent, other = pool.frozen(len), pool.frozen(abs)
        future = farcall.Future()
        # The message names a function whose code is not sent.
        pool.enqueue(_calls.Call(future, sent, other.encode((-1,), None), len))
        self.assertRaisesRegex(RuntimeError, "node 1 is broken: it refuses a call of len again and again", future.result)
        self.assertEqual(executor.submit(abs, -1).result(), 1)


class UnmappedAndFreed(support.TestCase):
    """Arrays whose memory this process cannot pass on."""

    def test_freed_array_fails_calls_that_wait(self):
        executor = self.executor(1)
        there = farcall.empty(1000, "u1", executor[0])
        waits = [executor.submit(time.sleep, 0.05) for _ in range(4)]
        calls = [executor.submit(len, there) for _ in range(1000)]
        there.free()
        lengths, errors = set(), 0
        for call in calls:
            try:
                lengths.add(call.result())
            except ValueError as error:
                self.assertEqual(str(error), "the array was freed")
                errors += 1
        self.assertLessEqual(lengths, {1000})
        self.assertGreater(errors, 0)
        for wait in waits:
            wait.result()

    def test_array_of_another_machine_reaches_other_workers(self):
        executor = self.executor(2)
        _core.set_sharing(False)
        try:
            there = farcall.empty(1000, "u1", executor[0])
        finally:
            _core.set_sharing(True)
        there.put(bytes([3]) * 1000)
        self.assertEqual(executor[1].submit(sum, there).result(), 3000)


class Views(support.TestCase):
    """Shapes of arrays that an unpickled array may have."""

    def test_elements_stay_in_the_memory(self):
        executor = self.executor(1)
        memory = farcall.empty(100, "u1", executor)._memory
        huge = 1 << 32
        for shape, strides in (((huge, huge), (8, 8 * huge)), ((-1, -1), (1, 1)), ((huge, huge, 1), (0, 0, 1)),
                               ((3,), (1 << 62,)), ((1 << 62,), (4,)), ((2, 2), (1 << 63 - 1, 1)), ((101,), (1,)),
                               ((2,), (-1,))):
            with self.subTest(shape=shape), self.assertRaisesRegex((ValueError, OverflowError), "outside|large"):
                _core.View(memory, 0, "B", 1, shape, strides, False)
        for offset in (-1, 100, (1 << 63) - 1):
            self.assertRaises(ValueError, _core.View, memory, offset, "B", 1, (1,), (1,), False)
        for shape, strides in (((100,), (-1,)), ((2, 50), (-50, -1)), ((0, 5), (7, 1))):
            self.assertEqual(memoryview(_core.View(memory, 99, "B", 1, shape, strides, False)).shape, shape)


if __name__ == "__main__":
    support.main()
