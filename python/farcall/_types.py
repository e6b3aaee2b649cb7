# SPDX-License-Identifier: Apache-2.0
"""Types of C for annotations of Python functions that stand for functions in C."""

from __future__ import annotations

from typing import Annotated

f32 = Annotated[float, "f"]
f64 = Annotated[float, "d"]
i8 = Annotated[int, "b"]
i16 = Annotated[int, "h"]
i32 = Annotated[int, "i"]
i64 = Annotated[int, "q"]
u8 = Annotated[int, "B"]
u16 = Annotated[int, "H"]
u32 = Annotated[int, "I"]
u64 = Annotated[int, "Q"]
size_t = Annotated[int, "N"]
