#!/usr/bin/env python3
"""Looks at the machine code of a program for GPUs.

Run as: check_machine_code.py <program> <architecture>…, such as sm_90. For each architecture:
handlers are there once and are reached by an indirect call, the worker looks at a slot by one access
of 16 bytes a thread and answers by one, an answer waits at most for a release, and the worker keeps to
its registers. Exits with 77 when the program is "none", or when NVIDIA's cuobjdump and nvdisasm are not to be found.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

# 65,536 registers of a multiprocessor for 256 threads.
MOST_REGISTERS = 255
HANDLER = "11device_call"
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
    """Name → list of its instructions, without addresses and encodings."""
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
    """Name → registers."""
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


def check(program, architecture, cuobjdump):
    # The linked code only: objects that were linked in are in the file as well.
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
        problems.append("a slot is not looked at by accesses of 16 bytes")
    if not has(r"CCTL\.IVALL"):
        problems.append("a look at a slot does not drop the cache's lines")
    if not has(r"STG?\.E\.128\.STRONG\.SYS"):
        problems.append("an answer is not written by stores of 16 bytes")
    # One fence of the strongest kind, for the worker that leaves; answers need a release only.
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
    # cuobjdump looks for its companion in PATH.
    os.environ["PATH"] += os.pathsep + str(pathlib.Path(find_tool("nvdisasm")).parent)
    failed = 0
    for architecture in sys.argv[2:]:
        for problem in check(sys.argv[1], architecture, cuobjdump):
            print(f"{architecture}: {problem}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
