#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the documents of the command farcall with the programs for which they are made.

Run as: documents_test.py <farcall> <part>, where <part> is one of PARTS. Exit status 77: a program that the
part needs is not installed. Documents of farcall-bench are tested if that program is beside farcall.
"""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

LIMIT_S = 60
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
INTERNAL = ("process-group", "--documents", "--key-from-stdin", "--exports-from-stdin", "--folder-if-there")


def expect(condition, *what):
    if not condition:
        raise SystemExit(" ".join(map(str, ("expected otherwise:",) + what)))


def run(*words, **how):
    how = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False} | how
    return subprocess.run([str(w) for w in words], **how)


def need(program):
    if shutil.which(program) is None:
        print(program, "is not installed")
        raise SystemExit(77)


def on_terminal(*words, columns, **variables):
    """Returns the output of a program on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | variables
    text = b""
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        with contextlib.suppress(OSError):  # EIO: the program has ended
            while piece := os.read(ours, 65536):
                text += piece
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


def part_of(text, heading):
    """Returns the lines below a heading of a help text."""
    lines = text.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()
    return [line for line in lines if line.startswith("  ") and not line.startswith("   ")]


def has_bench(farcall):
    return (pathlib.Path(farcall).parent / "farcall-bench").exists()


def help_texts(farcall, *path):
    """Yields (words of the command, its help) of the program and all commands that it lists."""
    done = run(farcall, *path, "--help")
    expect(done.returncode == 0 and done.stderr == "", path, done)
    yield path, done.stdout
    if path == ("help",) or path[-1:] == ("help",):
        return
    for line in part_of(done.stdout, "Commands:"):
        if line.split()[0] != "bench" or has_bench(farcall):
            yield from help_texts(farcall, *path, line.split()[0])


def check_help(farcall, _):
    texts = dict(help_texts(farcall))
    expect({(), ("run",), ("prof",), ("completion",)} <= set(texts), texts.keys())
    expect(not has_bench(farcall) or ("bench", "floor") in texts, texts.keys())
    for path, text in texts.items():
        name = " ".join(("farcall",) + path)
        expect(text.startswith(f"Usage: {name} "), name, text)
        long_lines = [line for line in text.splitlines() if len(line) > 80]
        expect(not long_lines, name, long_lines)
        expect("\x1b" not in text, name, "has no colours in a pipe")
        if path[-1:] != ("help",):
            expect(run(farcall, "help", *path).stdout == text, name, "is also printed by help")
        for word in INTERNAL:
            expect(word not in text, name, "does not show", word)
    expect("PROGRAM [ARGUMENT...]" in texts["run",].splitlines()[0], texts["run",])

    for columns in (70, 90, 200):
        text = on_terminal(farcall, "run", "--help", columns=columns)
        expect(max(map(len, ESCAPES.sub("", text).splitlines())) <= min(columns, 100), columns, text)
        expect("\x1b[1m" in text, "a terminal gets colours:", text)
    expect("\x1b" not in on_terminal(farcall, "run", "--help", columns=80, NO_COLOR="1"), "NO_COLOR")
    expect("\x1b" not in on_terminal(farcall, "run", "--help", columns=80, TERM="dumb"), "TERM=dumb")
    expect(on_terminal(farcall, "run", columns=80).startswith("\x1b[1;31mfarcall run:\x1b[0m no program given"),
           "errors have colours on a terminal")
    expect("\x1b" not in on_terminal(farcall, "run", columns=80, NO_COLOR="1"), "NO_COLOR")


# Words that begin what the user shall do.
REMEDY = re.compile(
    r"(?:; |: |\()(?:give|leave|install|name|take|write|choose|set|use|try|raise|build|start|configure|unset|see|put|"
    r"hand|link|remove|wait|ask|for example|which|free|\{\} help|'\{\} help|'?farcall|a line is|is the disk)\b")
# A reason that is computed.
REASON = re.compile(r"\{[^}]*\}\)?$|: $|: \{\}")
# Reasons that are a part of another text.
PARTS_OF_TEXTS = {"the process has ended", "the sampling is over", "there is no such file", "it has ended",
                  "the options are invalid for a sampler", "process {} was not started by the server",
                  "nobody reads"}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def thrown_texts(source):
    """Yields (type of the error, text with {} for each part that is computed) of a source file."""
    for match in re.finditer(r"\bthrow (usage_problem|failed_run)\(", source):
        depth, end, is_text = 1, match.end(), False
        while depth:
            c = source[end]
            if is_text and c == "\\":
                end += 1
            elif c == '"':
                is_text = not is_text
            elif not is_text:
                depth += {"(": 1, ")": -1}.get(c, 0)
            end += 1
        arguments = source[match.end():end - 1]
        text, last = "", 0
        for literal in LITERAL.finditer(arguments):
            between = re.sub(r"fmt::format\(|[\s+]", "", arguments[last:literal.start()])
            # Parts between "+" are computed; behind a comma begin the arguments of a format.
            if "," in between and text:
                break
            text += ("{}" if between else "") + literal[1]
            last = literal.end()
        rest = re.sub(r"[\s+)]", "", arguments[last:])
        if text and rest and not rest.startswith(","):
            text += "{}"
        if text:
            yield match[1], text


def problems_of(kind, text):
    """Yields the rules that the text of an error breaks."""
    if text[:1].isupper():
        yield "begin with a small letter, because the command's name comes before"
    if text.rstrip().endswith("."):
        yield "leave out the full stop"
    if text.startswith("farcall"):
        yield "leave out the command's name, which comes before"
    if len(text) > 200:
        yield "shorten the text"
    if kind == "usage_problem" and not REMEDY.search(text):
        yield "say what to do: \"…; give X\""
    if kind == "failed_run" and not REMEDY.search(text) and not REASON.search(text):
        yield "give the reason, or say what to do"


def check_errors(farcall, _):
    root = pathlib.Path(__file__).resolve().parents[2]
    found, count = [], 0
    for folder in ("tools", "bench"):
        for path in sorted((root / folder).rglob("*.cpp")):
            if path.stem.endswith("_test"):
                continue
            for kind, text in thrown_texts(path.read_text(encoding="utf-8")):
                count += 1
                # Benchmarks fail for reasons of their own, such as wrong results.
                if folder == "bench" and kind == "failed_run" or text in PARTS_OF_TEXTS:
                    continue
                found += [f"{path.relative_to(root)}: \"{text}\": {p}" for p in problems_of(kind, text)]
    expect(count > 150, "the texts are found:", count)
    expect(not found, "\n" + "\n".join(found))
    for kind, text in (("usage_problem", "--a is wrong"), ("usage_problem", "Wrong; give b"),
                       ("failed_run", "it failed"), ("failed_run", "cannot write {}: {}.")):
        expect(list(problems_of(kind, text)), "is a problem:", text)

    # Errors of command lines, which the texts above do not have.
    for words, wanted in ((("nonsense",), "farcall: there is no command \"nonsense\"; 'farcall help' lists the commands"),
                          (("rnu",), "farcall: there is no command \"rnu\"; did you mean run?; 'farcall help' lists the commands"),
                          (("top", "--delay", "1"), "farcall top: --delay: it needs a whole number from 50 to 3600000, not \"1\""),
                          (("top", "--sort", "x"), "farcall top: --sort: it needs node, calls, p99, queue, busy, cpu or memory, not \"x\""),
                          (("keygen",), "farcall keygen: FILE is missing; usage: farcall keygen [OPTIONS] FILE"),
                          (("run", "-n", "4"), "farcall run: no program given; for example: farcall run -n 4 ./app its arguments"),
                          (("prof", "--fast"), "farcall prof: there is no option --fast; 'farcall help prof' lists the options")):
        done = run(farcall, *words)
        expect(done.returncode == 2 and done.stderr.rstrip() == wanted, words, repr(done.stderr))

    # Files that a command opens must not get the number of a standard output that is closed.
    for words in (("info",), ("info", "--json"), ("completion", "bash"), ("--help",)):
        done = run("sh", "-c", 'exec "$0" "$@" >&-', farcall, *words)
        expect(done.returncode == 1 and "cannot write to standard output: Bad file descriptor" in done.stderr,
               words, done.returncode, repr(done.stderr))


def check_man(farcall, folder):
    need("man")
    need("groff")
    done = run(farcall, "--documents", "man", folder)
    expect(done.returncode == 0 and done.stdout == done.stderr == "", done)
    pages = sorted(folder.iterdir())
    listed = [line.split()[0] for line in part_of(run(farcall, "help").stdout, "Commands:")]
    if not has_bench(farcall):
        listed.remove("bench")
    expect([p.name for p in pages] == sorted(["farcall.1"] + [f"farcall-{name}.1" for name in listed]), pages)
    for page in pages:
        for words in (("man", "--warnings", "-E", "UTF-8", "-l", page), ("groff", "-ww", "-man", "-Tutf8", "-Kutf8", page)):
            done = run(*words, env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"})
            expect(done.returncode == 0 and done.stderr == "", words, done.stderr)
        text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
            expect(f"\n{heading}\n" in text, page.name, heading, text)
        command = page.stem.split("-")[1:]
        for line in part_of(run(farcall, *command, "--help").stdout, "Options:"):
            for name in re.findall(r"(?<!\S)--?[a-z][-a-z]*", line):
                expect(name in text, page.name, "describes", name)
        for word in INTERNAL:
            expect(word not in text, page.name, "does not show", word)


# Command lines up to the cursor; the words that complete the last word; words that do not.
COMPLETIONS = (
    ("farcall ru", {"run"}, {"top"}),
    ("farcall ", {"run", "top", "bench", "help", "completion"}, {"process-group", "--documents"}),
    ("farcall help ru", {"run"}, {"top"}),
    ("farcall run --ho", {"--hosts", "--host-files", "--host-files-by"}, {"--spmd"}),
    ("farcall run --host-files-by ", {"auto", "mount", "preload"}, {"--spmd"}),
    ("farcall run -n 4 --host-files-by=mo", {"mount"}, {"auto"}),
    ("farcall serve --ke", {"--key", "--keep-output"}, {"--key-from-stdin"}),
    ("farcall top --sort b", {"busy"}, {"node"}),
    ("farcall bench offl", {"offload"}, {"floor"}),
    ("farcall bench offload --transport t", {"tcp", "tls"}, {"shm"}),
    ("farcall completion z", {"zsh"}, {"bash"}),
    ("farcall keygen there-is-one-f", {"there-is-one-file"}, set()),
    ("farcall prof -o there-is-one-f", {"there-is-one-file"}, set()),
    ("farcall run --folder here-is-a-f", {"here-is-a-folder"}, {"there-is-one-file"}),
    ("farcall run -n 4 app there-is-one-fi", {"there-is-one-file"}, set()),
)


@contextlib.contextmanager
def folder_to_complete():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "there-is-one-file").touch()
        (folder / "here-is-a-folder").mkdir()
        yield folder


def completions(farcall):
    return [row for row in COMPLETIONS if "farcall bench" not in row[0] or has_bench(farcall)]


def script_for(farcall, shell, file):
    done = run(farcall, "completion", shell)
    expect(done.returncode == 0 and done.stderr == "", done)
    file.write_text(done.stdout, encoding="utf-8")
    return file


def check_completions(farcall, completed):
    """Compares the results of a function from a line to its completions with COMPLETIONS."""
    for line, wanted, unwanted in completions(farcall):
        words = completed(line)
        # Some shells complete the whole word of an option with its value.
        words = {w.strip().rstrip("/").rpartition("=")[2] if "=" in w else w.strip().rstrip("/") for w in words}
        expect(wanted <= words, repr(line), words)
        expect(not unwanted & words, repr(line), words)


def check_bash(farcall, folder):
    need("bash")
    script = script_for(farcall, "bash", folder / "farcall")
    with folder_to_complete() as here:
        def completed(line):
            words = [w for part in re.split(r"( )", line) for w in re.split(r"(=)", part) if w != " "]
            words = [w for w in words if w] + ([""] if line.endswith(" ") else [])
            done = run("bash", "--norc", "-u", "-c",
                       'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                       '_farcall farcall "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"',
                       "bash", script, *words, cwd=here)
            expect(done.returncode == 0, line, done.stderr)
            expect(done.stderr == "", line, done.stderr)
            return done.stdout.splitlines()
        check_completions(farcall, completed)
        # A bash with programmable completion itself, by its function for keys.
        done = run("bash", "--norc", "-c", 'source "$1"; complete -p farcall', "bash", script)
        expect(done.stdout == "complete -F _farcall farcall\n", done)


def check_fish(farcall, folder):
    need("fish")
    script = script_for(farcall, "fish", folder / "farcall.fish")
    with folder_to_complete() as here:
        def completed(line):
            done = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'", cwd=here,
                       env=os.environ | {"HOME": str(here), "LC_ALL": "C.UTF-8"})
            expect(done.returncode == 0 and done.stderr == "", line, done)
            return [one.split("\t")[0] for one in done.stdout.splitlines()]
        check_completions(farcall, completed)


def check_zsh(farcall, folder):
    need("zsh")
    script_for(farcall, "zsh", folder / "_farcall")
    with folder_to_complete() as here:
        # Each word that has one completion is completed by the tabulator; then Ctrl-G writes the line.
        lines = [(line, words) for line, words, _ in completions(farcall) if len(words) == 1]
        result = here / "result"
        (here / ".zshrc").write_text(
            f"fpath=({folder} $fpath)\nautoload -Uz compinit\ncompinit -u -D\n"
            f"show() {{ print -r -- \"$BUFFER\" >> {result}; BUFFER=; zle redisplay }}\n"
            "zle -N show\nbindkey '^G' show\nunsetopt beep list_ambiguous\n"
            f"print ready > {here}/ready\n")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        shell = subprocess.Popen(["zsh", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=here,
                                 start_new_session=True,
                                 env=os.environ | {"ZDOTDIR": str(here), "TERM": "dumb", "LC_ALL": "C.UTF-8"})
        os.close(theirs)
        os.set_blocking(ours, False)
        try:
            seen = b""

            def wait_for(path, lines):
                nonlocal seen
                end = time.monotonic() + LIMIT_S
                while not path.exists() or len(path.read_text().splitlines()) < lines:
                    expect(time.monotonic() < end, "zsh replies:", seen)
                    with contextlib.suppress(OSError):
                        seen += os.read(ours, 65536)
                    time.sleep(0.01)
            wait_for(here / "ready", 1)
            for number, (line, _) in enumerate(lines, 1):
                os.write(ours, line.encode() + b"\t\x07")
                wait_for(result, number)
        finally:
            shell.kill()
            shell.wait(LIMIT_S)
            os.close(ours)
        for (line, words), completed in zip(lines, result.read_text().splitlines()):
            expect(re.split(r"[ =]", completed.strip())[-1].rstrip("/") in words, line, completed, seen)


PARTS = {"errors": check_errors, "help": check_help, "man": check_man, "bash": check_bash, "zsh": check_zsh,
         "fish": check_fish}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in PARTS:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        PARTS[sys.argv[2]](sys.argv[1], pathlib.Path(folder))


if __name__ == "__main__":
    main()
