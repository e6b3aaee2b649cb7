#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a GPU with `farcall bench offload`.

Run as: gpu_test.py <farcall> <1 if it has code for GPUs, else 0>. With a GPU, the document has all its
figures; without, the command fails, and gives the reason in one line.
"""

import json
import subprocess
import sys

KINDS_OF_LAUNCHES = 12


def problem_with_document(text):
    document = json.loads(text)
    launches = document.get("launch_ns", {})
    if document["env"]["transport"] != "cuda":
        return "it is not about a GPU"
    if len(launches) != KINDS_OF_LAUNCHES:
        return f"{len(launches)} kinds of launches, not {KINDS_OF_LAUNCHES}"
    figures = [document["floor_ns"], document["sync_empty_ns"], *launches.values()]
    return "" if all(figure["p50"] > 0 for figure in figures) else "a figure is not positive"


def problem_with_refusal(status, text, has_code):
    if has_code:
        wanted = (1, ("there is no NVIDIA driver", "the NVIDIA driver is too old",
                      "no CUDA-capable device"))
    else:
        wanted = (2, ("built without code for GPUs",))
    if status != wanted[0]:
        return f"status {status}, not {wanted[0]}"
    if text.count("\n") != 1 or not text.startswith("farcall bench offload: "):
        return "it is not one line of the command's"
    return "" if any(reason in text for reason in wanted[1]) else "the reason is another one"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    command = [sys.argv[1], "bench", "offload", "--targets", "cuda:0", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        problem = problem_with_document(done.stdout)
    else:
        problem = problem_with_refusal(done.returncode, done.stderr, sys.argv[2] == "1")
    print(done.stdout + done.stderr + problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
