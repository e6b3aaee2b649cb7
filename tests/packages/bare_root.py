# SPDX-License-Identifier: Apache-2.0
"""A bare root: a new Debian system in a folder, without farcall, in which packages are installed and used.

The system comes from the apt sources of this machine (debootstrap). It is made once, in a cache folder; each root is a
layer above it, which ends with the process: mounts are in a namespace of their own.
"""

import os
import pathlib
import shutil
import subprocess
import sys

# Programs that compile users' programs. Packages of farcall bring the rest.
INCLUDED = "g++,cmake,ninja-build,pkg-config,python3,python3-venv,ca-certificates"
GUARD_SECONDS = 1800
NAMESPACE = "FARCALL_TEST_NAMESPACE"


def why_not():
    """Returns the reason why this machine cannot make a bare root, or an empty text."""
    if os.geteuid() != 0:
        return "a bare root needs root"
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed"
    if subprocess.run(["unshare", "--mount", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return "this machine forbids namespaces of mounts"
    return ""


def enter_namespace():
    """Runs this program again in a namespace of mounts, unless it runs there already."""
    if os.environ.get(NAMESPACE) != "1":
        os.environ[NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv])


def mirror():
    """Returns the address and the name of the release in this machine's first apt source."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(LABEL)"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.split("\n")
    of_debian = [line.split()[:2] for line in listed if line.endswith(" Debian")]
    if not of_debian:
        raise SystemExit("bare_root: apt has no source of Debian; run apt-get update")
    return min(of_debian, key=lambda source: len(source[1]))


class BareRoot:
    """A root for one test. Commands run in it by `run`."""

    def __init__(self, cache, work):
        base = pathlib.Path(cache) / "base"
        if not (base / "complete").exists():
            self._make(base)
        layers = pathlib.Path(work)
        self.path = layers / "root"
        for name in ("tmpfs", "root"):
            (layers / name).mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", layers / "tmpfs"], check=True)
        upper, inner = layers / "tmpfs/upper", layers / "tmpfs/work"
        upper.mkdir()
        inner.mkdir()
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={upper},workdir={inner}",
                        self.path], check=True)
        for kind, place in (("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "dev/shm")):
            (self.path / place).mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", kind, kind, self.path / place], check=True)

    @staticmethod
    def _make(base):
        """Makes the system that all roots share."""
        shutil.rmtree(base, ignore_errors=True)
        base.parent.mkdir(parents=True, exist_ok=True)
        site, release = mirror()
        log = base.parent / "debootstrap.log"
        with log.open("w", encoding="utf-8") as out:
            done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={INCLUDED}", release, base, site],
                                  check=False, stdout=out, stderr=subprocess.STDOUT, timeout=GUARD_SECONDS)
        if done.returncode != 0:
            raise SystemExit(f"bare_root: debootstrap failed; see {log}")
        for name in ("resolv.conf", "hosts"):
            shutil.copy(pathlib.Path("/etc") / name, base / "etc" / name)
        (base / "etc/apt/apt.conf.d/farcall").write_text('APT::Sandbox::User "root";\n', encoding="ascii")
        (base / "complete").touch()

    def copy(self, file, folder="/tmp"):
        """Copies a file into the root, and returns its path there."""
        shutil.copy(file, self.path / folder.lstrip("/"))
        return f"{folder}/{pathlib.Path(file).name}"

    def write(self, place, text):
        file = self.path / place.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command):
        """Runs a command of the shell in the root, and returns its output. The test fails if the command fails."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive"}
        environment |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        done = subprocess.run(["chroot", self.path, "sh", "-ec", command], env=environment, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=GUARD_SECONDS)
        if done.returncode != 0:
            raise AssertionError(f"`{command}` ends with {done.returncode}:\n{done.stdout[-6000:]}")
        return done.stdout
