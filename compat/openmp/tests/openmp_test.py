#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenMP programs, compiled by clang, on targets of farcall.

Run as: openmp_test.py <farcall> <plugin> <farcall-openmp-target> <version of LLVM> <part> [farcall-bench-openmp], where
<part> is one of PARTS; `benchmark` needs the last argument. Ends with 77 if that version of clang cannot compile target
regions here.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import omptarget

TIMEOUT_S = 100
SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent / "programs"

REGIONS = """\
devices: 2
values are passed: yes
pointers in structs are mapped: yes
declared variables are updated: yes
reductions of enclosed data: yes
regions have threads: yes
memory is copied between devices: yes
regions run on devices: yes
line of a region
end
"""


def expect(is_so, what):
    if not is_so:
        raise SystemExit(f"not so: {what}")


class Place:
    """The farcall command, a compiler, and a folder for programs."""

    def __init__(self, farcall, plugin, target, version, folder, benchmark=None):
        self.farcall, self.plugin, self.target, self.version = farcall, pathlib.Path(plugin), target, version
        self.folder, self.benchmark = pathlib.Path(folder), benchmark

    def compiled(self, source):
        """Returns the path of the program that is compiled from a source."""
        name = pathlib.Path(source).name
        program = self.folder / (name.replace(".", "_") + self.version)
        done = subprocess.run(omptarget.command(self.version, HERE / source, program, "-O1"), capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=False)
        expect(done.returncode == 0, f"{name} is compiled:\n{done.stderr}")
        return str(program)

    def run(self, words, *arguments, **variables):
        """Runs a command with this environment, without farcall's variables of the caller."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FARCALL_", "OMP_", "KMP_"))}
        return subprocess.run([*words, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                              stdin=subprocess.DEVNULL, env={**environment, **variables})

    def run_on(self, targets, program, *arguments, options=(), **variables):
        """Runs a program with these targets as devices."""
        return self.run([self.farcall, "run", "--openmp", f"--targets={targets}", *options, program], *arguments,
                        **variables)

    @contextlib.contextmanager
    def served(self):
        """A server of farcall-openmp-target; returns the URL of two targets."""
        with subprocess.Popen([self.farcall, "serve", "--plain", "--listen", "127.0.0.1:0", "--", self.target],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                for line in server.stdout:
                    found = re.search(r"(\d+\.\d+\.\d+\.\d+:\d+)", line)
                    if found:
                        break
                yield f"tcp://{found.group(1)}?count=2"
            finally:
                server.terminate()
                server.communicate()


def good(done):
    expect(done.returncode == 0, f"{done.args} ends with 0, not {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def without_label(text):
    return re.sub(r"^\d+: ", "", text, flags=re.M)


def sorted_lines(text):
    return sorted(text.splitlines())


def expect_regions(done, label="2: "):
    # A device's line may come before or after the host's lines.
    good(done)
    expect(sorted_lines(without_label(done.stdout)) == sorted_lines(REGIONS), f"{REGIONS} is printed:\n{done.stdout}")
    expect(f"{label}line of a region" in done.stdout.splitlines(), f"the label is '{label}':\n{done.stdout}")


def regions(place):
    program = place.compiled("regions.c")
    done = place.run_on("shm:2", program)
    expect_regions(done)
    expect(f"LLVM {place.version}" in done.stderr, f"the command says which libomptarget it is:\n{done.stderr}")
    done = good(place.run_on("shm:2", program, FARCALL_LABEL="no"))
    expect(done.stdout == REGIONS, f"without labels, the lines are in order:\n{done.stdout}")
    expect_regions(place.run([place.farcall, "run", "--openmp", "-n", "3", program]))


def tcp(place):
    program = place.compiled("regions.c")
    with place.served() as targets:
        expect_regions(place.run_on(targets, program))
        done = good(place.run_on(targets, place.compiled("lines.c")))
    lines = done.stdout.splitlines()
    expect(lines == [f"1: line {i}" for i in range(1, 10001)], f"all lines arrive: {len(lines)} have, {lines[-1:]}")


def commands(place):
    device = f"exec:env ON_DEVICE=1 {place.target}"
    expect_regions(place.run_on(f"{device}?count=2", place.compiled("regions.c")))
    expect_regions(place.run_on(f"shm,{device}", place.compiled("regions.c")))


def mpirun(place):
    if shutil.which("mpirun") is None:
        print("mpirun is not installed (openmpi-bin)")
        sys.exit(SKIPPED)
    # Without these settings, mpirun refuses to run as root, and to start more processes than CPUs.
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    host = [place.farcall, "run", "--openmp", place.compiled("regions.c")]
    expect_regions(place.run(["mpirun", "-n", "1", *host, ":", "-n", "2", place.target], **settings), label="")


def tasks(place):
    program = place.compiled("tasks.c")
    pipe = str(place.folder / "pipe")
    os.mkfifo(pipe)
    done = good(place.run_on("shm:2", program, pipe))
    expect(done.stdout == "third: 3\n", done.stdout)
    with place.served() as targets:
        good(place.run_on(targets, program, pipe))


def objects(place):
    done = good(place.run_on("shm", place.compiled("objects.cpp")))
    expected = "caught: 1\nnext: 42\nsum: 10200\n"
    if place.version != "15":
        expected += "destroyed: 41\n1: destroyed: 42\n"
    expect(sorted_lines(done.stdout) == sorted_lines(expected), done.stdout)


def rows_of(place, program, count):
    """Returns how often each kind of row is in the timeline of `count` empty regions."""
    file = place.folder / f"trace-{count}.json"
    good(place.run_on("shm", program, str(count), options=[f"--trace={file}"]))
    rows = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    return collections.Counter((row["ph"], row.get("cat")) for row in rows if row["ph"] != "M")


def messages(place):
    program = place.compiled("repeated.c")
    few, many = (rows_of(place, program, count) for count in (10, 110))
    more = {kind: many[kind] - few[kind] for kind in many | few if many[kind] != few[kind]}
    print("100 more regions have", more)
    # How often a thread waits depends on the machine.
    more.pop(("X", "wait"), None)
    once = {("s", "request"), ("t", "request"), ("f", "request"), ("X", "call"), ("X", "handler")}
    expect(more == dict.fromkeys(once, 100), f"a region is one request and one reply, and nothing is copied: {more}")


def example(place):
    program = place.compiled("../../../../examples/50-openmp/main.c")
    done = good(place.run([place.farcall, "run", "--openmp", "-n", "4", program]))
    expect("3 devices: pi is about 3.14159265" in done.stdout, done.stdout)


def ends(place):
    done = place.run_on("shm", place.compiled("ends.c"))
    expect(done.returncode != 0 and "not reached" not in done.stdout, f"the program ends: {done}")
    found = [line for line in done.stderr.splitlines() if line.startswith("farcall: OpenMP: device")]
    expect(len(found) == 1, f"one line tells of the end:\n{done.stderr}")
    expect(all(part in found[0] for part in ("device 0 (node 1)", "region in main, line 9", "SIGABRT")), found)
    lines = done.stderr.splitlines()
    fatal = [i for i, line in enumerate(lines) if "Libomptarget" in line and "fatal" in line]
    expect(fatal and lines.index(found[0]) < fatal[0], f"the line is before libomptarget's:\n{done.stderr}")


def restarts(place):
    program = place.compiled("restarts.c")
    with place.served() as served:
        # The host may notice the end of a device on another machine only by the next region.
        for targets in ("shm", f"exec:env ON_DEVICE=1 {place.target}", *[served] * 5):
            done = good(place.run_on(targets, program, options=["--restart"]))
            expect(done.stdout == "another process: yes\n", done.stdout)
    done = place.run_on("shm", program)
    expect(done.returncode != 0 and not done.stdout, f"without --restart, the program ends: {done}")
    found = [line for line in done.stderr.splitlines() if line.startswith("farcall: OpenMP: device 0 (node 1)")]
    expect(len(found) == 1 and "SIGKILL" in found[0], f"one line tells of the end:\n{done.stderr}")


def threads(place):
    program = place.compiled("threads.c")
    usable = os.sched_getaffinity(0)
    one_processor = ["taskset", "-c", str(min(usable))]

    def counts_and_idle_time(words, devices, **variables):
        command = [*words, place.farcall, "run", "--openmp", "-n", str(devices + 1), program]
        *counts, idle = re.findall(r": ([\d.]+) ", good(place.run(command, **variables)).stdout)
        print(words, devices, variables, "have", counts, "threads; idle threads use", idle, "s of one second")
        return [int(count) for count in counts], float(idle)

    for words, devices, processors in (([], 1, len(usable)), ([], 2, len(usable)), (one_processor, 1, 1)):
        counts, idle = counts_and_idle_time(words, devices)
        expect(counts == [max(1, processors // devices)] * devices, f"devices share {processors} processors: {counts}")
        expect(idle < 0.1, "idle threads sleep")
    counts, _ = counts_and_idle_time([], 1, OMP_NUM_THREADS="3")
    expect(counts == [3], "variables of the host count on devices")


def bound(place):
    """Devices that a launcher has bound, as mpirun with PE=n does, divide no processors again."""
    program = place.compiled("threads.c")
    usable = sorted(os.sched_getaffinity(0))
    half = len(usable) // 2 or 1

    def counts(*targets):
        done = good(place.run_on(",".join(targets), program))
        return [int(count) for count in re.findall(r"(\d+) threads", done.stdout)]

    def on(processors):
        return f"exec:taskset {sum(1 << processor for processor in processors):#x} {place.target}"

    expect(counts(on(usable[:half]), on(usable[-half:])) == [half, half], "devices have the processors of their own")
    expect(counts("shm", on(usable[:half])) == [len(usable), half], "devices with unlike processors divide none")
    expect(counts(f"{on(usable)}?count=2") == [half, half], "devices with the same processors divide them")


def benchmark(place):
    packaged = omptarget.folder_of(place.version) / "lib" / place.plugin.name
    with place.served() as served:
        for targets in ("shm:2", served):
            done = good(place.run([place.benchmark, "--quick", packaged], FARCALL_TARGETS=targets))
            print(done.stdout)
            kinds = [re.split(r" +\d+ MiB|  +", line)[0] for line in done.stdout.splitlines()]
            used = ["used data"] * (3 if targets == "shm:2" else 0)
            expect(kinds == ["empty region", "tofrom", "tofrom", *used, "between devices", "two devices"], kinds)
    expect(place.run([place.benchmark, "--quick", "/nowhere"]).returncode == 1, "another file is no plugin")
    expect(place.run([place.benchmark, "--quick", packaged, "more"]).returncode == 2, "one plugin at most")


def refusals(place):
    done = place.run_on("shm", place.compiled("shared.c"))
    expect(done.returncode != 0 and "unified_shared_memory" in done.stderr, f"shared memory is refused: {done}")
    done = place.run_on("shm?program=/nowhere", place.compiled("repeated.c"))
    expect(done.returncode == 2 and "/nowhere" in done.stderr, f"a target that cannot start ends the program: {done}")
    done = place.run_on("shm?program=/bin/true", place.compiled("repeated.c"))
    expect(done.returncode == 2, f"a target of another program ends the program: {done}")
    for options, text in ((["--restart"], "--openmp"), (["--openmp", "--spmd"], "--spmd")):
        done = place.run([place.farcall, "run", *options, "-n", "2", "/bin/true"])
        expect(done.returncode == 2 and text in done.stderr, f"{options} is refused: {done}")
    done = place.run([place.farcall, "run", "--openmp", "--json", "-n", "2", place.compiled("repeated.c")])
    variables = json.loads(good(done).stdout)["environment"]
    folders = variables["LD_LIBRARY_PATH"].split(":")
    expect(any(place.plugin.parent.samefile(folder) for folder in folders if folder),
           f"--json shows the folder of {place.plugin} in the loader's path: {folders}")
    for folder in ("bin", "lib/farcall/openmp"):
        (place.folder / folder).mkdir(parents=True)
    farcall_alone = shutil.copy(place.farcall, place.folder / "bin")
    (place.folder / "bin" / "farcall-openmp-target").touch()
    done = place.run([farcall_alone, "run", "--openmp", "-n", "2", place.compiled("repeated.c")])
    expect(done.returncode != 0 and "build and install farcall again" in done.stderr,
           f"a command without its plugin runs no program: {done}")


PARTS = {f.__name__: f for f in (regions, tcp, commands, mpirun, tasks, objects, messages, example, ends, restarts,
                                 threads, bound, refusals, benchmark)}


def main():
    farcall, plugin, target, version, part, *benchmark_program = sys.argv[1:]
    if omptarget.folder_of(version) is None:
        print(f"clang-{version}, clang-tools-{version} or libomptarget of LLVM {version} is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="farcall-openmp-") as folder:
        PARTS[part](Place(farcall, plugin, target, version, folder, *benchmark_program))
    return 0


if __name__ == "__main__":
    sys.exit(main())
