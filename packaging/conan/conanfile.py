# SPDX-License-Identifier: Apache-2.0
"""Recipe of farcall for Conan 2: `conan create packaging/conan` in the root of farcall's sources."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class FarcallConan(ConanFile):
    name = "farcall"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "Calls C++ functions in other processes, on this machine and on others"
    topics = ("ipc", "rpc", "active-messages", "offloading", "hpc")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "with_tls": [True, False]}
    default_options = {"shared": True, "with_tls": True}

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "farcall/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        # The system's OpenSSL would do, too; Conan's has the settings of this build.
        if self.options.with_tls:
            self.requires("openssl/[>=3.0 <4]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FARCALL_LIBRARY_ONLY"] = True
        toolchain.cache_variables["FARCALL_UNITY_BUILD"] = True
        toolchain.cache_variables["FARCALL_BUILD_SHARED"] = False
        toolchain.cache_variables["FARCALL_WITH_PMIX"] = "OFF"
        toolchain.cache_variables["FARCALL_WITH_TLS"] = "ON" if self.options.with_tls else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        # The other components need files that are not exported, for instance the documents.
        for component in ("runtime", "dev"):
            CMake(self).install(component=component)
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append("lib/cmake/farcall-0.1")
        self.cpp_info.includedirs = ["include/farcall-0.1"]
        self.cpp_info.libdirs = ["lib"]
        self.cpp_info.libs = ["farcall"]
        self.cpp_info.system_libs = ["pthread", "dl"]
