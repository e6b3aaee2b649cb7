#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `./run help` lists every command, and that `.ci/run` runs each in some form.

Run as: check_commands.py [project root]. `.ci/run` runs in a temporary folder, with a stand-in for `run`
that only records its arguments.
"""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

IN_HELP = re.compile(r"^  ([a-z][\w-]*(?:, [a-z][\w-]*)*)(?: |$)", re.M)
FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?do_([\w-]+)[ \t]*(?:\(\)|\{)", re.M)
CI = ".ci/run"
# Timeout of .ci/run with the stand-in. A run takes a few seconds.
SECONDS = 100
NOTING = """\
#!/usr/bin/env bash
cd "$(dirname "$(readlink -f "$0")")"
printf '%s\\n' "$*" >>'{calls}'
[[ $1 != clean ]] || rm -rf build
[[ $1 != '{failing}' ]]
"""


def commands_of_help(text):
    listed = text.split("\n\n", 1)[1]
    return {name for match in IN_HELP.finditer(listed) for name in match.group(1).split(", ")}


def commands_of_run(text):
    return set(FUNCTION.findall(text)) | {"help"}


class Trial:
    """A copy of the script beside a stand-in for `run`, in which only `failing` fails.

    Copies are written before the first one runs: a file that is open for writing while another thread
    forks cannot be executed (ETXTBSY).
    """

    def __init__(self, script, failing=""):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        self.calls = root / "calls"
        self.calls.touch()
        self.script = root / CI
        self.script.parent.mkdir()
        shutil.copy(script, self.script)
        (root / "run").write_text(NOTING.format(calls=self.calls, failing=failing), encoding="utf-8")
        (root / "run").chmod(0o755)

    def run(self):
        """Runs the copy once. Returns (status, output, calls)."""
        with self.folder:
            done = subprocess.run([self.script], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SECONDS)
            return done.returncode, done.stdout, self.calls.read_text(encoding="utf-8").splitlines()


def problems(root):
    help_text = subprocess.run([root / "run", "help"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
    listed = commands_of_help(help_text)
    known = commands_of_run((root / "run").read_text(encoding="utf-8"))
    for name in sorted(known - listed):
        yield f"run: help does not list the command {name}"
    for name in sorted(listed - known):
        yield f"run: help lists {name}, which is no command"
    status, output, calls = Trial(root / CI).run()
    if status != 0:
        yield f"{CI}: ends with {status}, although every command has passed:\n{output}"
    for name in sorted(listed - {call.split(" ")[0] for call in calls}):
        yield f"{CI}: runs ./run {name} in no form"
    names = sorted(listed & {call.split(" ")[0] for call in calls})
    # All at once, because a run mostly waits for its steps.
    trials = [Trial(root / CI, failing=name) for name in names]
    with concurrent.futures.ThreadPoolExecutor(len(names) or 1) as threads:
        tried = list(threads.map(Trial.run, trials))
    for name, (status, output, _) in zip(names, tried):
        if status == 0 or not re.search(rf"^FAILED .*\./run {name}\b", output, re.M):
            yield f"{CI}: ends with {status}, although ./run {name} has failed:\n{output}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    for problem in found:
        print(problem)
    print(f"{len(found)} problem(s) with the commands of ./run")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
