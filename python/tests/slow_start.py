# SPDX-License-Identifier: Apache-2.0
"""Module that delays workers after they have joined their job."""

import time

from farcall import _core

_set_stop = _core.set_stop


def _wait_and_set_stop(kind):
    """Waits before the worker takes its first call."""
    time.sleep(0.3)
    return _set_stop(kind)


_core.set_stop = _wait_and_set_stop
