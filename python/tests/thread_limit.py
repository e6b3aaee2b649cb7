# SPDX-License-Identifier: Apache-2.0
"""Module that reads the limit of threads when it is imported, like numerical libraries."""

import os

LIMIT = os.environ.get("OMP_NUM_THREADS")
