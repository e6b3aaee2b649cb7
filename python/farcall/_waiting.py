# SPDX-License-Identifier: Apache-2.0
"""Functions that wait for several futures; the types are in the stub."""

from concurrent.futures import as_completed, wait

__all__ = ["as_completed", "wait"]
