#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the machine code of a program for GPUs.

Run as: check_machine_code.py <program> <architecture>…, such as sm_90. For each architecture:
each handler exists once and is called indirectly; the worker reads a slot and writes a reply by one
access of 16 bytes per thread, stays within its registers, and contains no division. From poll to poll,
from poll to handler, to the reply and back to the poll, there is a path with a limited number of
instructions and without a fence of the whole system. Long arguments and results are moved by 8 and 16
bytes. Exits with 77 if the program is "none", or NVIDIA's cuobjdump or nvdisasm is not found.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

INSTRUCTION_BYTES = 16
# Most instructions of the shortest paths: slightly more than CUDA 13.0 needs for sm_90.
MOST_OF_A_LOOK = 64
MOST_OF_A_HIT = 66
MOST_OF_A_REPLY = 74
MOST_TO_THE_NEXT = 56
# Loads from the GPU's memory, which is far: only characters of texts.
MOST_FAR_LOADS = 4
# Fences before the reply of a function that may have written memory, for a rendezvous record, for each
# of three states, and one sequentially consistent fence.
MOST_SYSTEM_FENCES = 6

# A multiprocessor has 65,536 registers for 256 threads.
MOST_REGISTERS = 255
HANDLER = "11device_call"
# Part of the name of a handler that takes and returns 1 KiB.
LONG_HANDLER = "turnedILm256E"
# Only the text of an error, and one or two flags of the request, are accessed byte by byte.
MOST_ACCESSES_OF_BYTES = 8
WORKER = "farcall_executor"


def find_tool(name):
    extra = os.environ.get("FARCALL_CUDA_TOOLS", "")
    places = [extra, os.environ.get("CUDA_HOME", "") + "/bin", "/usr/local/cuda/bin", "/opt/cuda/bin"]
    for place in places:
        candidate = pathlib.Path(place) / name
        if place and candidate.is_file():
            return str(candidate)
    return shutil.which(name)


def functions_of(dump):
    """Returns a dictionary: name → list of instructions, without addresses and encodings."""
    functions = {}
    name = None
    for line in dump.splitlines():
        match = re.match(r"\s*Function : (\S+)", line)
        if match:
            name = match.group(1)
            functions.setdefault(name, []).append([])
        elif name is not None:
            match = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.+?)\s*;", line)
            if match:
                functions[name][-1].append(match.group(1))
    return functions


def registers_of(dump):
    """Returns a dictionary: name → number of registers."""
    found = {}
    name = None
    for line in dump.splitlines():
        match = re.match(r"\s*Function (\S+):", line)
        if match:
            name = match.group(1)
        match = re.search(r"REG:(\d+)", line)
        if match and name is not None:
            found[name] = max(found.get(name, 0), int(match.group(1)))
    return found


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


class Ways:
    """The paths through a function, by the numbers of its instructions."""

    def __init__(self, code):
        self.code = code
        self.next = [list(self._next(i)) for i in range(len(code))]

    def _next(self, i):
        words = self.code[i].split()
        is_conditional = words[0].startswith("@")
        operation = words[1] if is_conditional else words[0]
        if operation.startswith("BRA"):
            target = re.search(r"0x([0-9a-f]+)", self.code[i])
            yield int(target.group(1), 16) // INSTRUCTION_BYTES
            # BRA.DIV branches only if the threads have diverged; a predicate may follow it.
            if operation == "BRA" and not is_conditional and not re.search(r"BRA U?P\d", self.code[i]):
                return
        elif re.match(r"EXIT|RET|BPT|BREAK", operation) and not is_conditional:
            return
        if i + 1 < len(self.code):
            yield i + 1

    def shortest(self, start, ends, barred):
        """Returns the number of instructions from `start` to the first of `ends`, or None without a path."""
        distance = {start: 0}
        queue = collections.deque([start])
        while queue:
            i = queue.popleft()
            for j in self.next[i]:
                if j in ends:
                    return distance[i] + 1
                if j not in distance and j not in barred:
                    distance[j] = distance[i] + 1
                    queue.append(j)
        return None


def is_look(instruction):
    return re.search(r"LDG?\.E\.128\.STRONG\.SYS", instruction) is not None


def is_handler_call(instruction):
    return re.search(r"CALL\.ABS", instruction) is not None


def is_reply(instruction):
    return re.search(r"STG?\.E\.128\.STRONG\.SYS", instruction) is not None


def is_slow(instruction):
    """True for a fence of the whole system that is executed for all predicates."""
    return re.match(r"MEMBAR\.\w+\.SYS", instruction) is not None


def problems_of_ways(worker):
    """Returns the problems of an idle iteration, and of a call of a function that writes no memory."""
    def those(is_it):
        return {i for i, instruction in enumerate(worker) if is_it(instruction)}
    looks, calls, replies, slow = map(those, (is_look, is_handler_call, is_reply, is_slow))
    if not looks or not calls or not replies:
        return []  # check() reports this
    # A message that is longer than expected needs a second access.
    look = {min(looks)}
    ways = Ways(worker)
    problems = []
    for what, starts, ends, most in [("from poll to poll", look, look, MOST_OF_A_LOOK),
                                     ("from poll to handler", look, calls, MOST_OF_A_HIT),
                                     ("from handler to reply", calls, replies, MOST_OF_A_REPLY),
                                     ("from reply to poll", replies, look, MOST_TO_THE_NEXT)]:
        barred = slow | looks | calls | replies
        found = [ways.shortest(i, ends, barred - ends) for i in starts]
        found = [count for count in found if count is not None]
        if not found:
            problems.append(f"{what} there is no path without a fence of the whole system")
        elif min(found) > most:
            problems.append(f"{what} there are {min(found)} instructions, {most} at most")
        else:
            print(f"  {what}: {min(found)} instructions, {most} at most")
    return problems


def check(program, architecture, cuobjdump):
    # Only the linked code: the file also contains the objects that were linked.
    functions = functions_of(run(cuobjdump, "-sass", "-arch", architecture, program))
    registers = registers_of(run(cuobjdump, "-res-usage", "-arch", architecture, program))
    problems = []

    workers = [name for name in functions if WORKER in name]
    handlers = [name for name in functions if HANDLER in name]
    if len(workers) != 1:
        return [f"{len(workers)} workers instead of one"]
    if not handlers:
        return ["no handlers"]
    for name in workers + handlers:
        if len(functions[name]) != 1:
            problems.append(f"{name} is there {len(functions[name])} times")
    worker = functions[workers[0]][0]

    def has(pattern, code=worker):
        return any(re.search(pattern, instruction) for instruction in code)

    if not has(r"CALL\.ABS"):
        problems.append("no indirect call of a handler")
    if not has(r"LDG?\.E\.128\.STRONG\.SYS"):
        problems.append("a slot is not read by accesses of 16 bytes")
    if not has(r"CCTL\.IVALL"):
        problems.append("a poll of a slot does not drop the cache's lines")
    if not has(r"STG?\.E\.128\.STRONG\.SYS"):
        problems.append("a reply is not written by stores of 16 bytes")
    problems += problems_of_ways(worker)
    for name in handlers:
        if LONG_HANDLER not in name:
            continue
        of_bytes = sum(re.search(r"\b(LD|ST)[GSL]?\.\S*U8", i) is not None for i in functions[name][0])
        if of_bytes > MOST_ACCESSES_OF_BYTES:
            problems.append(f"{name} moves {of_bytes} single bytes, {MOST_ACCESSES_OF_BYTES} at most")
        if not has(r"\bLD\.E\.128", functions[name][0]) or not has(r"\bST\.E\.64", functions[name][0]):
            problems.append(f"{name} does not take its arguments by 16 bytes, and reply by 8")
    if not any(LONG_HANDLER in name for name in handlers):
        problems.append(f"there is no handler {LONG_HANDLER}")
    fences = sum(re.search(r"MEMBAR\.\w+\.SYS", i) is not None for i in worker)
    if fences > MOST_SYSTEM_FENCES:
        problems.append(f"{fences} fences of the whole system, {MOST_SYSTEM_FENCES} at most")
    far = sum(re.search(r"\bLDG\.(?!.*STRONG)", i) is not None for i in worker)
    if far > MOST_FAR_LOADS:
        problems.append(f"{far} loads of the GPU's memory, {MOST_FAR_LOADS} at most")
    if has(r"MUFU\.RCP|I2F"):
        problems.append("a division at run time")
    # One fence of the strongest kind, for a worker that leaves; replies need a release only.
    strongest = sum("MEMBAR.SC.SYS" in i for i in worker)
    if strongest != 1:
        problems.append(f"{strongest} sequentially consistent fences instead of one")
    for name in workers:
        if registers.get(name, 0) == 0 or registers[name] > MOST_REGISTERS:
            problems.append(f"{registers.get(name)} registers")
    print(f"{architecture}: {len(handlers)} handlers, the worker has {len(worker)} instructions and "
          f"{registers.get(workers[0])} registers")
    return problems


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    if sys.argv[1] == "none":
        print("there is no program for GPUs: CUDA's compiler was not found")
        return 77
    cuobjdump = find_tool("cuobjdump")
    if cuobjdump is None or find_tool("nvdisasm") is None:
        print("cuobjdump or nvdisasm is missing (of CUDA, or nvidia-cuda-cuobjdump and "
              "nvidia-cuda-nvdisasm from PyPI)")
        return 77
    # cuobjdump searches nvdisasm in PATH.
    os.environ["PATH"] += os.pathsep + str(pathlib.Path(find_tool("nvdisasm")).parent)
    failed = 0
    for architecture in sys.argv[2:]:
        for problem in check(sys.argv[1], architecture, cuobjdump):
            print(f"{architecture}: {problem}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
