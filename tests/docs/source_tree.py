# SPDX-License-Identifier: Apache-2.0
"""Reads the text files of the tree, as they are now and as they were at a commit."""

import fnmatch
import os
import pathlib
import subprocess

from passages import language_of

EXCLUDED = ("fuzz/corpus/*", "*LICENSE*", "build/*")
UNREAD_SUFFIXES = (".svg", ".mtx", ".txt", ".json", ".service", ".socket", ".map")
UNREAD_FOLDERS = {"build", ".git", "__pycache__"}


def git(root, *arguments, **options):
    """Runs git in the tree. Variables of a git hook that name another tree are left out."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
    return subprocess.run(["git", "-c", "core.quotePath=false", *arguments], cwd=root, env=environment,
                          capture_output=True, check=False, **options)


def git_text(root, *arguments):
    """Returns what git prints. Throws RuntimeError with git's message if it fails."""
    done = git(root, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def is_checkout(root):
    """True if the tree is a git checkout of its own, and no folder of another one."""
    try:
        done = git(root, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return False
    return done.returncode == 0 and os.path.realpath(done.stdout.decode().strip()) == os.path.realpath(root)


def complaint(root):
    """Returns why git reads no checkout here, for instance because the folder has another owner."""
    try:
        return git(root, "rev-parse", "--show-toplevel").stderr.decode(errors="replace").partition("\n")[0]
    except FileNotFoundError:
        return "git is missing"


def has_commit(root, commit):
    return git(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def is_read(path):
    if path.endswith(UNREAD_SUFFIXES) and not path.endswith("CMakeLists.txt"):
        return False
    return not any(fnmatch.fnmatchcase(path, glob) for glob in EXCLUDED)


def texts(root, paths):
    """Returns the texts, by path, of the files that are in a language that the check reads."""
    read = {}
    for path in filter(is_read, paths):
        file = pathlib.Path(root, path)
        if file.is_file() and not file.is_symlink():
            text = file.read_text(encoding="utf-8-sig", errors="replace")
            if language_of(path, text):
                read[path] = text
    return read


def paths_in_folder(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - UNREAD_FOLDERS)
        for name in sorted(files):
            yield pathlib.Path(folder, name).relative_to(root).as_posix()


def current_texts(root):
    """Returns the texts of the files that git knows or would add, or of all files if there is no git."""
    if not is_checkout(root):
        return texts(root, paths_in_folder(root))
    listed = git_text(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return texts(root, sorted(set(filter(None, listed.split("\0")))))


def committed_texts(root, commit, paths=None):
    """Returns the texts of a commit's files, or of those among the given paths."""
    listed = git_text(root, "ls-tree", "-r", "-z", "--full-tree", commit)
    blobs = {}
    for entry in filter(None, listed.split("\0")):
        attributes, path = entry.split("\t", 1)
        mode, kind, blob = attributes.split()
        if kind == "blob" and mode != "120000" and is_read(path) and (paths is None or path in paths):
            blobs[path] = blob
    if not blobs:
        return {}
    out = git(root, "cat-file", "--batch", input="\n".join(blobs.values()).encode() + b"\n").stdout
    read, at = {}, 0
    for path in blobs:
        end = out.find(b"\n", at)
        if end < 0 or out[at:end].endswith(b" missing"):
            raise RuntimeError(f"{path}: git cannot read this file at {commit}")
        size = int(out[at:end].split()[2])
        text = out[end + 1:end + 1 + size].decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        at = end + size + 2
        if language_of(path, text):
            read[path] = text
    return read


def changed_paths(root, commit):
    """Returns the paths whose text differs between a commit and the working tree."""
    return set(filter(None, git_text(root, "diff", "--name-only", "--no-renames", "-z", commit, "--").split("\0")))


def commits_since(root, commit):
    """Yields (abbreviated hash, subject, body) of the commits after one. Merges are left out."""
    log = git_text(root, "log", "--no-merges", "--reverse", "--format=%h%x00%s%x00%b%x01", f"{commit}..HEAD")
    for entry in log.split("\x01"):
        if entry.strip():
            number, subject, body = entry.strip("\n").split("\0")
            yield number, subject, body.strip()
