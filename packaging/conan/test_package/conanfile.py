# SPDX-License-Identifier: Apache-2.0
"""Builds the program of README.md with the package, and runs it, also over TLS if the package has TLS."""

import os
import sys

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class FarcallTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        program = os.path.join(self.cpp.build.bindir, "program")
        self.run(program, env="conanrun")
        if self.dependencies["farcall"].options.with_tls:
            script = os.path.join(self.source_folder, "call_with_key.py")
            self.run(f'"{sys.executable}" -B "{script}" "{program}"', env="conanrun")
