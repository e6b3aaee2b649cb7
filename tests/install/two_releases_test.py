#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs two releases in one prefix, and lets their programs meet.

Run as: two_releases_test.py <cmake> <C++ compiler> <source folder> <build folder>. The first release is the one of the
build folder. The second one is the next minor release, of which the library is built from changed sources
(next_release.py) in the folder two_releases of the build folder.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import next_release

CMAKE, COMPILER, SOURCE, BUILD = sys.argv[1:5]
SOURCE, BUILD = pathlib.Path(SOURCE), pathlib.Path(BUILD)
PLACE = BUILD / "two_releases"
LIMIT_S = 60
BUILD_LIMIT_S = 900
SAYS = "40 + 2 = 42, computed in another process\n"
# Parts of a program's environment that would change where its targets run.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("FARCALL_")}

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(meeting LANGUAGES CXX)
find_package(farcall {version} REQUIRED)
add_executable(hello {source})
target_link_libraries(hello PRIVATE farcall::farcall)
"""


def run(*words, limit=LIMIT_S):
    """Runs a command, which must succeed. Returns its standard output."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=limit, env=ENVIRONMENT)
    if done.returncode != 0:
        raise AssertionError(f"{words} has failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Release:
    """The numbers of a release's sources."""

    def __init__(self, source):
        number, = re.findall(r"this_release = 0x(\w\w)(\w\w)(\w\w);", (source / "farcall/base/version.hpp").read_text())
        numbers = [int(part, 16) for part in number]
        self.version = ".".join(map(str, numbers))
        self.minor = ".".join(map(str, numbers[:2]))
        self.wire = self.found(source, "farcall/transport/wire_release.hpp", r" wire_version = (\d+);")
        self.connection = self.found(source, "farcall/transport/tcp/handshake.hpp", r" connection_version = (\d+);")
        self.soname = "libfarcall.so." + self.found(source, "CMakeLists.txt", r"^set\(FARCALL_ABI (\d+)\)$")

    @staticmethod
    def found(source, file, pattern):
        number, = re.findall(pattern, (source / file).read_text(), re.M)
        return number

    def in_shared_memory(self):
        """Returns the release's name in errors about the cards of nodes."""
        return f"farcall {self.version} (wire version {self.wire})"

    def in_connections(self):
        """Returns the release's name in errors about connections."""
        return f"farcall {self.version} (wire version {self.wire}, connection version {self.connection})"


@contextlib.contextmanager
def server(*words):
    """Runs a server. Yields its URL, and a function that ends it and returns all that it has said."""
    with subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=ENVIRONMENT) as process:
        said = []

        def end():
            process.terminate()
            said.append(process.communicate(timeout=LIMIT_S)[0])
            return "".join(said)

        try:
            url = None
            while url is None:
                line = process.stdout.readline()
                if not line:
                    raise AssertionError(f"{words} has ended: {''.join(said)}")
                said.append(line)
                url = re.search(r"tcp://[\d.]+:\d+", line)
            yield url[0], end
        finally:
            if process.poll() is None:
                process.kill()


class TwoReleases(unittest.TestCase):
    """A prefix with both releases, and a program of each."""

    @classmethod
    def setUpClass(cls):
        source = PLACE / "source"
        next_release.make(SOURCE, source)
        cls.releases = Release(SOURCE), Release(source)
        run(CMAKE, "-S", source, "-B", PLACE / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}",
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DFARCALL_LIBRARY_ONLY=ON",
            "-DFARCALL_UNITY_BUILD=ON", "-DBUILD_SHARED_LIBS=ON", "-DFARCALL_BUILD_SHARED=OFF",
            "-DFARCALL_WITH_PMIX=OFF")
        run(CMAKE, "--build", PLACE / "build", limit=BUILD_LIMIT_S)
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.prefix = pathlib.Path(temporary.name, "prefix")
        cls.install(BUILD, "runtime", "dev", "tools")
        cls.install(PLACE / "build", "runtime", "dev")
        cls.programs = [cls.program(pathlib.Path(temporary.name), release) for release in cls.releases]

    @classmethod
    def install(cls, build, *components):
        for component in components:
            run(CMAKE, "--install", build, "--component", component, "--prefix", cls.prefix)

    @classmethod
    def program(cls, folder, release):
        """Builds the README's program with a release of the prefix."""
        project = folder / release.minor
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            PROJECT.format(version=release.minor, source=SOURCE / "tests/install/consumer/main.cpp"), encoding="utf-8")
        run(CMAKE, "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF")
        run(CMAKE, "--build", project / "build", limit=BUILD_LIMIT_S)
        return project / "build/hello"

    def failure(self, *words):
        """Runs a host that must fail. Returns what it says."""
        done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=LIMIT_S, env=ENVIRONMENT)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn(SAYS, done.stdout)
        return done.stdout

    def pairs(self):
        """Yields host and target, each with its release: both ways."""
        both = tuple(zip(self.programs, self.releases))
        yield *both[0], *both[1]
        yield *both[1], *both[0]

    def test_libraries_have_names_of_their_own(self):
        first, second = self.releases
        self.assertNotEqual(first.soname, second.soname)
        for program, release in zip(self.programs, self.releases):
            self.assertTrue((self.prefix / "lib" / release.soname).exists())
            self.assertIn(f"[{release.soname}]", run("readelf", "-d", program))

    def test_programs_of_both_work_side_by_side(self):
        started = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
                   for program in self.programs]
        for process in started:
            said, _ = process.communicate(timeout=LIMIT_S)
            self.assertEqual((process.returncode, said), (0, SAYS))

    def test_the_command_works_beside_the_next_library(self):
        command = self.prefix / "bin/farcall"
        self.assertTrue(run(command, "--version").startswith(f"farcall {self.releases[0].version}\n"))
        self.assertEqual(run(command, "run", "-n", "2", self.programs[0]), SAYS)

    def test_names_without_a_number_are_the_last_release(self):
        def last():
            return os.path.basename(os.path.realpath(self.prefix / "lib/libfarcall.so"))
        first, second = self.releases
        self.assertEqual(last(), f"libfarcall.so.{second.version}")
        self.install(BUILD, "runtime", "dev")
        self.assertEqual(last(), f"libfarcall.so.{first.version}")
        self.install(PLACE / "build", "runtime", "dev")
        for program in self.programs:
            self.assertEqual(run(program), SAYS)

    def test_targets_on_one_machine_are_refused_with_both_names(self):
        for host, here, target, there in self.pairs():
            with self.subTest(host=here.version):
                said = self.failure(host, f"--farcall-targets=shm?program={target}")
                self.assertIn(f"{here.in_shared_memory()} here, {there.in_shared_memory()} there", said)

    def test_servers_and_hosts_refuse_each_other_with_both_names(self):
        for host, here, target, there in self.pairs():
            with self.subTest(host=here.version), \
                    server(target, "--farcall-serve=127.0.0.1:0", "--farcall-plain=yes") as (url, end):
                said = self.failure(host, f"--farcall-targets={url}")
                self.assertIn(f"{here.in_connections()} here, {there.in_connections()} there", said)
                self.assertIn(f"{there.in_connections()} here, {here.in_connections()} there", end())

    def test_the_command_as_a_server_names_both(self):
        first, second = self.releases
        words = (self.prefix / "bin/farcall", "serve", "--listen", "127.0.0.1:0", "--plain", self.programs[1])
        with server(*words) as (url, end):
            said = self.failure(self.programs[1], f"--farcall-targets={url}")
            self.assertIn(f"{second.in_connections()} here, {first.in_connections()} there", said)
            self.assertIn(f"{first.in_connections()} here, {second.in_connections()} there", end())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
