# SPDX-License-Identifier: Apache-2.0
"""Arrays in the shared memory of workers."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import queue
import struct
import sys
import threading
from collections.abc import Callable, Sequence

from . import _core, _pickling, _worker
from ._errors import NodeFailed
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Formats of the buffer protocol by kinds and sizes of elements, as in "f8".
_FORMATS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "l", "u1": "B", "u2": "H", "u4": "I", "u8": "L",
            "f2": "e", "f4": "f", "f8": "d", "c8": "Zf", "c16": "Zd"}
_CODES = {"?": "b1", "b": "i1", "h": "i2", "i": "i4", "l": "i8", "q": "i8", "n": "i8", "B": "u1", "H": "u2", "I": "u4",
          "L": "u8", "Q": "u8", "N": "u8", "c": "u1", "e": "f2", "f": "f4", "d": "f8", "F": "c8", "D": "c16",
          "Zf": "c8", "Zd": "c16"}
_NAMES = {"bool": "b1", "float": "f8", "double": "f8", "single": "f4", "half": "f2", "int": "i8", "complex": "c16"}
_WORDS = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


def _kind_of(dtype: Any) -> str:
    """Returns the kind and the size of elements, such as "f8", for a type or its name."""
    text = dtype
    if isinstance(dtype, type):
        if dtype.__module__ == "numpy":
            text = sys.modules["numpy"].dtype(dtype).str
        elif dtype.__module__ == "builtins":
            text = dtype.__name__
    elif not isinstance(dtype, str):
        text = getattr(dtype, "str", dtype)
    found = None
    if isinstance(text, str):
        name = text.lstrip("<=|@") if sys.byteorder == "little" else text.lstrip(">=|@")
        word = name.rstrip("0123456789")
        found = _CODES.get(name) or _NAMES.get(name) or (name if name in _FORMATS else None)
        if found is None and word in _WORDS and name != word:
            found = f"{_WORDS[word]}{int(name[len(word):]) // 8}"
    if found not in _FORMATS:
        raise TypeError(f"arrays cannot have elements of the type {dtype!r}; they have numbers, such as 'f8', 'i4', "
                        "'u1', 'b1' and 'c16', in the order of bytes of this machine")
    return found


def _numpy() -> Any:
    """Returns the module numpy, or None if it is not installed."""
    try:
        import numpy  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    return numpy


def _integer(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"a shape has whole numbers, not {value!r}") from None


def _shape_of(shape: Any) -> tuple[int, ...]:
    numbers = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    checked = tuple(_integer(number) for number in numbers)
    if any(number < 0 for number in checked):
        raise ValueError(f"a shape has no negative numbers: {shape!r}")
    return checked


def _count(shape: Sequence[int]) -> int:
    count = 1
    for number in shape:
        count *= number
    return count


def _dense(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Returns the strides of elements that follow each other."""
    strides = []
    for number in reversed(shape):
        strides.append(item)
        item *= max(number, 1)
    return tuple(reversed(strides))


def _home_of(node: Any) -> tuple[Any, int]:
    """Returns the job and the number of a process in which an array shall be."""
    if node is None:
        if _worker.job is None:
            raise ValueError("say in which process the array shall be: node=executor[0] for a worker, or node=executor "
                             "for this program")
        return _worker.job, _worker.job.own()
    executor = getattr(node, "_executor", node)
    pool = getattr(executor, "_pool", None)
    if pool is not None and isinstance(executor, concurrent.futures.Executor):
        number = 0 if executor is node else node.node
        if number is None:
            raise NodeFailed("the worker has ended and is being replaced")
        return pool.job, number
    job = getattr(getattr(node, "job", None), "core", None)
    if job is not None:
        return job, node.id
    raise TypeError(f"node must be executor[i] or an executor, not {node!r}")


class Array(_core.View):
    """Elements in the memory of a process, which other processes can read and write. farcall.empty() makes arrays.

    The memory is freed when the last array, slice and view of it has gone, in all processes. An array that is an
    argument of a call is a NumPy array there, or a memoryview without NumPy, whose memory is the same if the process is
    on the same machine. It has the buffer protocol, DLPack, and NumPy's interface of arrays.
    """

    __slots__ = ("__weakref__",)

    # ---- properties

    @property
    def node(self) -> int:
        """Number of the process in whose memory the elements are."""
        return self._memory.node

    @property
    def dtype(self) -> str:
        """Type of the elements, such as "f8"."""
        return _CODES[self.format]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return _count(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements."""
        return self.size * self.itemsize

    def __repr__(self) -> str:
        state = ", freed" if self._memory.was_freed else ""
        return f"<farcall.Array {self.shape} {self.dtype!r} on node {self.node}{state}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    # ---- slices

    def __getitem__(self, key: Any) -> Array:
        """Returns an array of some of the elements, in the same memory. The key has integers, slices and `...`."""
        keys = self._keys(key)
        offset, shape, strides = self._offset, [], []
        for index, (number, stride) in zip(keys, zip(self.shape, self.strides)):
            if isinstance(index, slice):
                first, last, step = index.indices(number)
                count = len(range(first, last, step))
                offset += first * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                at = _integer(index)
                if not -number <= at < number:
                    raise IndexError(f"there is no element {at} in a dimension of {number}")
                offset += at % number * stride
        return self._view(offset, tuple(shape), tuple(strides), self.readonly)

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].put(value)

    def _keys(self, key: Any) -> list[Any]:
        """Returns a key with an index or slice for each dimension."""
        keys = list(key) if isinstance(key, tuple) else [key]
        rests = [i for i, each in enumerate(keys) if each is Ellipsis]
        if len(rests) > 1 or len(keys) - len(rests) > self.ndim:
            raise IndexError(f"too many indices for an array of {self.ndim} dimensions")
        missing = [slice(None)] * (self.ndim - len(keys) + len(rests))
        at = rests[0] if rests else len(keys)
        return keys[:at] + missing + keys[at + 1:]

    def _view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool) -> Array:
        return Array(self._memory, offset, self.format, self.itemsize, shape, strides, readonly)

    def toreadonly(self) -> Array:
        """Returns an array of the same memory that refuses to write."""
        return self._view(self._offset, self.shape, self.strides, True)

    # ---- copies

    def put(self, values: Any) -> None:
        """Copies values to the array: a contiguous buffer with its shape and type, a list, or a number for all.

        Waits until they are there. Raises NodeFailed if the node has ended.
        """
        self.write(self._checked(values))

    def get(self, out: Any = None) -> Any:
        """Returns a copy of the elements: `out`, or a new NumPy array, or a memoryview if there is no NumPy.

        `out` is a contiguous buffer with the shape and type of the array. An array without dimensions gives a number.
        Raises NodeFailed if the node has ended.
        """
        target = self._new() if out is None else self._checked(out, True)
        self.read(target)
        if out is not None:
            return out
        return target if self.shape else _first(target)

    def copy_to(self, other: Array) -> None:
        """Copies the elements to an array with the same shape and type, directly from node to node."""
        if not isinstance(other, Array):
            raise TypeError("copy_to() takes an array; get(out=…) copies to other buffers")
        if self._overlaps(other):
            other.put(self.get())
        else:
            self.copy(other)

    def put_async(self, values: Any) -> Future[None]:
        """Begins a put(), and returns a future of its end. `values` must not change before."""
        checked = self._checked(values)
        return _copy_thread.start(self.node, lambda: self.write(checked), None)

    def get_async(self, out: Any = None) -> Future[Any]:
        """Begins a get(), and returns a future of its result. `out` must not be used before."""
        target = self._new() if out is None else self._checked(out, True)
        result = target if out is None else out
        return _copy_thread.start(self.node, lambda: self.read(target), result)

    def _overlaps(self, other: Array) -> bool:
        return self._memory is other._memory or self.node == other.node and self._span()[0] < other._span()[1] and \
            other._span()[0] < self._span()[1]

    def _span(self) -> tuple[int, int]:
        """Returns the addresses of the first and behind the last byte in this process, or zeros."""
        if not self._memory.is_mapped or not self.size:
            return 0, 0
        ways = [(number - 1) * stride for number, stride in zip(self.shape, self.strides)]
        first = self._address + sum(way for way in ways if way < 0)
        return first, self._address + sum(way for way in ways if way > 0) + self.itemsize

    def _new(self) -> Any:
        """Returns new memory of this process for the elements."""
        numpy = _numpy()
        if numpy is not None:
            return numpy.empty(self.shape, self.dtype)
        return _shaped(bytearray(self.nbytes), self.format, self.shape)

    def _checked(self, values: Any, is_output: bool = False) -> Any:
        """Returns values as a contiguous buffer that has the size of the array. Raises an error if they do not fit."""
        try:
            view = memoryview(values)
        except TypeError:
            if is_output:
                raise TypeError(f"out must be a buffer that can be written to, not {type(values).__name__}") from None
            return self._packed(values)
        if not view.c_contiguous:
            raise ValueError("the elements of the buffer do not follow each other; pass a copy that is contiguous")
        if is_output and view.readonly:
            raise ValueError("out is read-only")
        is_raw = view.format in ("B", "b", "c") and view.ndim == 1 and self.dtype != "u1" and self.dtype != "i1"
        if is_raw and view.nbytes == self.nbytes:
            return view
        if _kind_of(view.format) != self.dtype or view.itemsize != self.itemsize:
            raise TypeError(f"the array has elements of the type {self.dtype!r}, and the buffer "
                            f"{_CODES.get(view.format, view.format)!r}")
        if view.shape != self.shape:
            raise ValueError(f"the array has the shape {self.shape}, and the buffer {view.shape}")
        return view

    def _packed(self, values: Any) -> Any:
        """Returns a list of values, or a number for all elements, as a buffer."""
        numpy = _numpy()
        if numpy is not None:
            made = numpy.asarray(values, self.dtype)
            if made.shape not in ((), self.shape):
                raise ValueError(f"the array has the shape {self.shape}, and the values {made.shape}")
            return numpy.ascontiguousarray(numpy.broadcast_to(made, self.shape))
        flat = [values] * self.size if isinstance(values, (int, float)) else _flat(values, self.shape)
        try:
            return struct.pack(f"{len(flat)}{self.format}", *flat)
        except struct.error as error:
            raise TypeError(f"the values do not fit the type {self.dtype!r}: {error}") from None

    # ---- views

    def local(self) -> Any:
        """Returns a view of the memory, without a copy: a NumPy array, or a memoryview if there is no NumPy.

        The view keeps the memory, also after the end of the executor. Raises BufferError if the memory is on another
        machine.
        """
        numpy = _numpy()
        return memoryview(self) if numpy is None else numpy.asarray(memoryview(self))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self._memory.is_mapped and not self._memory.was_freed:
            # NumPy then calls __array__().
            raise AttributeError(f"the memory of node {self.node} cannot be used without a copy")
        address = self._address
        # A consumer keeps the array, but no buffer of it.
        self._memory.pin()
        order = "|" if self.itemsize == 1 else "<" if sys.byteorder == "little" else ">"
        return {"version": 3, "shape": self.shape, "strides": self.strides, "typestr": order + self.dtype,
                "data": (address, self.readonly)}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        numpy = _numpy()
        is_copied = copy or not self._memory.is_mapped
        if copy is False and is_copied:
            raise ValueError(f"the memory of node {self.node} cannot be used without a copy")
        made = self.get() if is_copied else self.local()
        return made if dtype is None else numpy.asarray(made, dtype)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Returns a DLPack capsule of the memory, without a copy."""
        if stream is not None:
            raise BufferError("memory of processors has no streams")
        if dl_device not in (None, (1, 0)):
            raise BufferError(f"the array is on the device (1, 0), and cannot move to {dl_device}")
        if copy:
            raise BufferError("a capsule always shares the memory; copy the array by get()")
        return self.dlpack(max_version is not None and max_version >= (1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device of DLPack: the processor."""
        return 1, 0

    # ---- lifetime

    def free(self) -> None:
        """Ends the use of the memory by this process: this array and its slices can then no longer be used.

        Views that local() has returned keep the memory until they are gone.
        """
        self._memory.free()

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.free()

    def __reduce_ex__(self, protocol: Any) -> Any:
        if protocol < 5:
            raise TypeError("an array can be sent in calls of its executor, but not be pickled; pickle array.get()")
        reference = pickle.PickleBuffer(self._memory.reference())
        _pickling.noted.has_array = True
        return _rebuild, (reference, self._offset, self.format, self.itemsize, self.shape, self.strides, self.readonly)


def local_view(value: Any) -> Any:
    """Returns the view of an array, and other values as they are."""
    return value.local() if isinstance(value, Array) else value


def _rebuild(memory: Any, *layout: Any) -> Any:
    """Makes an array from a message, or its view if the array is an argument of a call."""
    if not isinstance(memory, _core.Memory):
        raise TypeError("an array can be sent only as an argument or result of a call of its executor; send its "
                        "content, array.get(), elsewhere")
    array = Array(memory, *layout)
    if not getattr(_pickling.arriving, "is_call", False):
        return array
    return array.local() if memory.is_mapped else array.get()


def _shaped(data: Any, format_: str, shape: tuple[int, ...]) -> memoryview:
    """Returns a memoryview of bytes with a format and a shape."""
    # The elements of complex numbers and empty dimensions are not known to memoryview.
    if format_.startswith("Z") or 0 in shape:
        return memoryview(data)
    native: Any = format_  # a checker would want one of the formats of its own list
    return memoryview(data).cast(native, shape)


def _first(values: Any) -> Any:
    """Returns the only element of a buffer without dimensions."""
    return values.item() if hasattr(values, "item") else values[()] if values.ndim == 0 else bytes(values)


def _flat(values: Any, shape: tuple[int, ...]) -> list[Any]:
    """Returns the numbers of nested lists. Raises an error if they have another shape."""
    if not shape:
        return [values]
    length = len(values) if hasattr(values, "__len__") else 1
    if length != shape[0] or not hasattr(values, "__iter__"):
        raise ValueError(f"the array has {shape[0]} elements in a dimension, and the values {length}")
    return [number for value in values for number in _flat(value, shape[1:])]


def empty(shape: int | Sequence[int], dtype: Any = "f8", node: Any = None) -> Array:
    """Returns a new array in the memory of a process. Its elements have no defined values.

    `node` is a worker, `executor[i]`, or an executor, which stands for the program that has made it. In a task, the
    default is the worker of the task. `dtype` is the type of the elements: "f8", "i4", a code of the module struct, or
    a type of NumPy. Raises MemoryError if the process has not enough memory, and NodeFailed if it has ended.
    """
    sizes, kind = _shape_of(shape), _kind_of(dtype)
    job, number = _home_of(node)
    format_, item = _FORMATS[kind], int(kind[1:])
    if len(sizes) > 32:
        raise ValueError("an array has at most 32 dimensions")
    bytes_ = _count(sizes) * item
    if bytes_ >= 1 << 45:
        raise MemoryError(f"{bytes_} bytes are more than any memory")
    memory = job.memory(number, bytes_)
    return Array(memory, 0, format_, item, sizes, _dense(sizes, item), False)


class zero_copy:  # pylint: disable=invalid-name
    """Context in which results of calls that are made in it need no copy: with farcall.zero_copy(): …

    An object such as a NumPy array whose memory the worker has got by farcall.empty() then arrives as a view of this
    memory, which caller and worker share.
    """

    def __enter__(self) -> None:
        _core.zero_copy(1)

    def __exit__(self, *unused: Any) -> None:
        _core.zero_copy(-1)


class _CopyThread:
    """A thread that copies while the program goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], None], Any]] | None = None

    def start(self, node: int, copy: Callable[[], None], result: Any) -> Future[Any]:
        """Copies in the thread, and returns a future, which gets the result."""
        future: Future[Any] = Future()
        future.node = node
        with self._lock:
            if self._orders is None:
                self._orders = queue.SimpleQueue()
                threading.Thread(target=_copy_all, args=(self._orders,), name="farcall-copies", daemon=True).start()
        self._orders.put((future, copy, result))
        return future

    def forget(self) -> None:
        """In a forked child, leaves the thread to the parent."""
        self.__init__()  # type: ignore[misc]


def _copy_all(orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], None], Any]]) -> None:
    while True:
        future, copy, result = orders.get()
        if future.set_running_or_notify_cancel():
            try:
                copy()
                future.set_result(result)
            except BaseException as error:  # pylint: disable=broad-except
                future.set_exception(error)
        del future, copy, result


_copy_thread = _CopyThread()
os.register_at_fork(after_in_child=_copy_thread.forget)
