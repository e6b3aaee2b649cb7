#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs and commands of pages, and compares their output: run_pages.py --farcall COMMAND --library FILE
--include FOLDER [--libs WORDS] PAGE...

Each page has a new folder, in which its blocks are used from the top to the bottom:

* A C++ or CMake block that begins with a comment of a file name (`// picture.cpp`, `# CMakeLists.txt`) becomes this file.
* A `sh` block runs in bash. If the next block is `output`, the standard output must be equal to it; `…` stands for any
  text in a line. Otherwise the commands only have to succeed.
* `<!-- stays: reason -->` before a block says that its command continues to run. The page continues as soon as the
  output has appeared. The command gets SIGTERM at the end of the page, and must then succeed.
* `<!-- not run: reason -->` before a block says that the block is not run.

The commands find farcall by pkg-config and in PATH. The port 7070 of a page is replaced by a free one.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

BLOCK = re.compile(r"(?:^<!-- (not run|stays): (.+) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
FILE_NAME = re.compile(r"(?://|#) ([\w.-]+\.(?:cpp|hpp|txt))\n")
PORT = "7070"
SECONDS = 120


class Wrong(Exception):
    """The page says something else than happens."""


class Block:
    """A block of a page, with the line where it begins."""

    def __init__(self, text, match):
        self.mark, self.reason, self.language, self.code = match.groups()
        self.line = text.count("\n", 0, match.start(4))
        named = FILE_NAME.match(self.code)
        self.file = named[1] if named and self.language in ("cpp", "cmake") else None


def blocks_of(text):
    return [Block(text, match) for match in BLOCK.finditer(text)]


def pattern_of(expected):
    """Returns the regular expression of an output."""
    return re.compile(".*".join(re.escape(part) for part in expected.split("…")))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Command:
    """The commands of a block, which may continue to run."""

    def __init__(self, code, folder, environment):
        # A process group of their own, so that all of them can be ended.
        self.process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True)
        self.errors = ""
        self.reader = threading.Thread(target=self.read_errors)
        self.reader.start()
        self.timer = threading.Timer(SECONDS, self.kill)
        self.timer.start()

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def lines(self, count):
        """Returns the next lines of the output, fewer at its end."""
        return "".join(line for line in (self.process.stdout.readline() for _ in range(count)))

    def end(self, how=None):
        """Waits for the end, after a signal if one is given. Returns the status and the rest of the output."""
        if how is not None:
            os.killpg(self.process.pid, how)
        rest = self.process.stdout.read()
        status = self.process.wait()
        self.reader.join()
        self.timer.cancel()
        self.kill()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, rest

    def succeed(self, how=None):
        """Like end(), but throws Wrong if the status is not 0."""
        status, rest = self.end(how)
        if status != 0:
            raise Wrong(f"ended with status {status}:\n{rest}{self.errors}")
        return rest


def run_block(block, expected, folder, environment):
    """Runs a block. Returns its command if it still runs."""
    command = Command(block.code, folder, environment)
    if block.mark == "stays":
        output = command.lines(expected.count("\n"))
    else:
        output = command.succeed()
    if expected is None or pattern_of(expected).fullmatch(output):
        return command if block.mark == "stays" else None
    if block.mark == "stays":
        command.end(signal.SIGKILL)
    raise Wrong(f"printed\n{output}in place of\n{expected}{command.errors}")


def run_page(page, folder, environment):
    """Uses all blocks of a page. Throws Wrong with the line of the block that fails."""
    text = page.read_text(encoding="utf-8").replace(f":{PORT}", f":{free_port()}")
    blocks = blocks_of(text)
    staying = []
    count = 0
    try:
        for block, following in zip(blocks, [*blocks[1:], None]):
            if block.mark == "not run":
                continue
            if block.file:
                (folder / block.file).write_text(block.code, encoding="utf-8")
            elif block.language == "sh":
                has_output = following is not None and following.language == "output"
                try:
                    left = run_block(block, following.code if has_output else None, folder, environment)
                except Wrong as wrong:
                    raise Wrong(f"{page}:{block.line}: {block.code.strip()}\n{wrong}") from None
                staying += [left] if left else []
                count += 1
    finally:
        for command in staying:
            command.succeed(signal.SIGTERM)
    return count


def environment_of(options, tools):
    """Returns the variables with which commands find farcall, as if it were installed."""
    library = pathlib.Path(options.library)
    (tools / "farcall.pc").write_text(
        "Name: farcall\nDescription: farcall in its build folder\nVersion: 0\n"
        f"Cflags: -I{options.include}\nLibs: {library} -Wl,-rpath,{library.parent} {options.libs}\n", encoding="utf-8")
    (tools / "farcall").symlink_to(options.farcall)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARCALL_")}
    return {**kept, "PATH": f"{tools}:{kept.get('PATH', '/usr/bin:/bin')}", "PKG_CONFIG_PATH": str(tools)}


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--farcall", "--library", "--include"):
        parser.add_argument(name, required=True)
    parser.add_argument("--libs", default="")
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    failed = False
    for page in options.pages:
        with tempfile.TemporaryDirectory() as root:
            tools, folder = pathlib.Path(root, "tools"), pathlib.Path(root, "page")
            tools.mkdir()
            folder.mkdir()
            try:
                print(f"{page}: {run_page(page, folder, environment_of(options, tools))} blocks of commands")
            except Wrong as wrong:
                print(wrong)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
