#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs bench/cuda/run: with the real programs on threads, and with programs that misbehave.

Run as: run_test.py <folder with farcall_cuda_bench> <part>, where <part> is one of PARTS.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS, PART = sys.argv[1:]
FILES = ["summary.txt", "log.txt", "figures.csv", "figures.json"]
LIMIT_S = 100

# One group of figures is enough: the script does not read them.
MEASURED = """group,what,unit,p1,p50,p99,samples,kind,to_floor,to_best_launch,ratio,against
floor,flags,ns,100,100,100,2,floor,,,,
calls,"empty call, fc::pure_fn",ns,100,120,140,2,call,,,,
"""
STAND_IN = """#!/bin/bash
case "$*" in
--help) ;;
*--smoke*) [[ ! -e $(dirname "$0")/waits ]] || exec sleep 50 ;;
*"--only floor"*)
  cp "$(dirname "$0")/measured.csv" "$(sed 's/.*--csv \\([^ ]*\\).*/\\1/' <<<"$*")" ;;
*"--only launches"*) echo "launching"; sleep 50 ;;
*"--only calls"*) echo "worker 0 runs"; exit 3 ;;
*"--only give-up"*) exit 1 ;;
esac
"""


def expect(is_so, what, text=""):
    if not is_so:
        raise SystemExit(f"{PART}: {what}\n{text}")


def stand_in(folder):
    """Makes a folder of programs of which some never end."""
    programs = pathlib.Path(folder, "programs")
    programs.mkdir()
    program = programs / "farcall_cuda_bench"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    (programs / "measured.csv").write_text(MEASURED, encoding="utf-8")
    return programs


def run(*arguments, **options):
    return subprocess.run([HERE / "run", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
                          **options)


def expect_archive(folder, files):
    with tarfile.open(pathlib.Path(folder, "cuda-bench.tar.gz")) as archive:
        expect(archive.getnames() == files, f"the archive has {archive.getnames()}")


def smoke():
    """The script's whole smoke run passes on threads that emulate a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        # More time than usual: the machine may be busy with other tests.
        done = run("--smoke", "--samples", "100", "--limit", "240", "--targets", "cuda-emulated:0",
                   "--programs", PROGRAMS, folder)
        expect(done.returncode == 0, "it has failed", done.stdout)
        for text in ("smoke", "floor", "calls", "empty call, fc::pure_fn", "goals"):
            expect(text in done.stdout, f"it does not say {text}", done.stdout)
        expect(sorted(os.listdir(folder)) == sorted(FILES + ["cuda-bench.tar.gz"]), "other files")
        expect_archive(folder, FILES)
        figures = pathlib.Path(folder, "figures.csv").read_text(encoding="utf-8")
        expect("\ncalls,call whose handler calls the host once,ns," in figures, "figures", figures)


def independent():
    """A step that hangs, one that reports so itself and one that fails don't affect other steps."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder, "results")
        done = run("--targets", "cuda-emulated:0", "--limit", "40", "--programs", stand_in(folder),
                   results)
        expect(done.returncode == 1, f"status {done.returncode}", done.stdout)
        summary = (results / "summary.txt").read_text(encoding="utf-8")
        for text in (r"floor +\d+ s  passed\n",
                     r"launches +\d+ s  FAILED: not done after 3 s\n +launching\n",
                     r"calls +\d+ s  FAILED: no progress\n +worker 0 runs\n",
                     r"rates +\d+ s  passed\n", r"kill +\d+ s  passed\n",
                     r"give-up +\d+ s  FAILED with status 1\n", r"\ngoals\n +empty call / flags +1.200, goal <= 1.5: reached\n"):
            expect(re.search(text, summary), f"the summary does not say: {text}", summary)
        expect_archive(results, FILES)


def uncompared():
    """A failure of report.py is not taken for a missing python3."""
    with tempfile.TemporaryDirectory() as folder:
        programs = stand_in(folder)
        (programs / "farcall_cuda_bench").write_text(STAND_IN.replace("sleep 50", "true"), encoding="utf-8")
        (programs / "measured.csv").write_text(MEASURED + "calls,cut", encoding="utf-8")
        done = run("--smoke", "--targets", "cuda-emulated:0", "--programs", programs,
                   pathlib.Path(folder, "results"))
        for text in ("no figures of farcall_cuda_bench, or a line is cut short",
                     "figures   not compared with the goals: report.py has failed"):
            expect(text in done.stdout, f"it does not say {text}", done.stdout)
        expect("python3 and" not in done.stdout, "it asks for python3", done.stdout)


def interrupted():
    """An interrupted script packs the files so far, and leaves no process running."""
    with tempfile.TemporaryDirectory() as folder:
        programs = stand_in(folder)
        (programs / "waits").touch()
        results = pathlib.Path(folder, "results")
        with subprocess.Popen([HERE / "run", "--targets", "cuda-emulated:0", "--programs", programs,
                               results], stdout=subprocess.PIPE, text=True) as script:
            for line in script.stdout:
                if line.startswith("smoke"):
                    break
            time.sleep(0.2)  # until the program has begun
            script.send_signal(signal.SIGTERM)
            rest = script.stdout.read()
            expect(script.wait(LIMIT_S) == 143, f"status {script.returncode}", rest)
        expect("interrupted after" in rest, "it does not say so", rest)
        expect_archive(results, ["summary.txt", "log.txt"])


def refused():
    """Errors name the problem and the remedy."""
    with tempfile.TemporaryDirectory() as folder:
        programs = stand_in(folder)
        results = str(pathlib.Path(folder, "results"))
        # A machine that claims to have a GPU.
        smi = pathlib.Path(folder, "bin", "nvidia-smi")
        smi.parent.mkdir()
        smi.write_text("#!/bin/bash\necho 8.0\n", encoding="utf-8")
        smi.chmod(0o755)
        (programs / "architecture.txt").write_text("90\n", encoding="utf-8")
        broken = pathlib.Path(folder, "broken")
        broken.mkdir()
        (broken / "farcall_cuda_bench").write_text("#!/bin/no/such/loader\n", encoding="utf-8")
        (broken / "farcall_cuda_bench").chmod(0o755)
        path = {**os.environ, "PATH": f"{smi.parent}:{os.environ['PATH']}"}
        for arguments, text in (
                (["--limit", "soon"], '--limit needs a number of seconds from 20 to 99999, not "soon"'),
                (["--limit", "19"], '--limit needs a number of seconds from 20'),
                (["--limit"], "--limit needs a value"),
                (["--samples", "9"], "--samples needs a number from 100"),
                (["--fast"], "there is no option --fast; see --help"),
                (["a", "b"], "one folder, not two: a and b"),
                (["/proc/here"], "cannot make the folder /proc/here; name another one"),
                (["--build", "--programs", programs], "either --programs, or --build"),
                (["--programs", "/nowhere", results], "there is no folder /nowhere; bench/cuda/build"),
                (["--programs", smi.parent, results], "there is no program "),
                (["--programs", broken, results], "does not run here: "),
                (["--programs", programs, results],
                 "is for GPUs of sm_90, and this machine has one of sm_80; build them with")):
            done = run(*arguments, env=path)
            expect(done.returncode == 2 and text in done.stdout,
                   f"{arguments}: status {done.returncode}, expected: {text}", done.stdout)


PARTS = {part.__name__: part for part in (smoke, independent, uncompared, interrupted, refused)}
PARTS[PART]()
