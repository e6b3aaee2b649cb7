# SPDX-License-Identifier: Apache-2.0

# Not tried: this recipe for Spack was written from Spack's documentation.

from spack.package import *


class Farcall(CMakePackage):
    """Calls C++ functions in other processes, on the same machine and on others."""

    homepage = "https://farcall.example/"
    url = "https://farcall.example/releases/farcall-0.1.0.tar.gz"
    license("Apache-2.0")

    # The file farcall-0.1.0.tar.gz.sha256 beside the tarball has the checksum.
    version("0.1.0", sha256="0" * 64)

    variant("tls", default=True, description="Encrypt connections between machines")
    variant("tools", default=True, description="Build the farcall command")
    variant("compat", default=False, description="Run programs of HAM-Offload, VEO, AM-2 and OpenMP")
    variant("ucx", default=False, description="Build the module for UCX")
    variant("mpi", default=False, description="Build the module for MPI")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openssl@3:", when="+tls")
    depends_on("fmt", when="+tools")
    depends_on("cli11", type="build", when="+tools")
    depends_on("ncurses", when="+tools")
    depends_on("zlib-api", when="+tools")
    depends_on("elfutils", when="+tools")
    depends_on("libffi", when="+compat")
    depends_on("ucx@1.12:", when="+ucx")
    depends_on("mpi@3.1:", when="+mpi")

    conflicts("%gcc@:11", msg="farcall needs C++20 of g++ 12")
    conflicts("%clang@:18", msg="farcall needs C++20 of clang 19")

    def cmake_args(self):
        args = [self.define(f"FARCALL_BUILD_{part}", False) for part in ("TESTS", "EXAMPLES", "BENCH", "PYTHON")]
        args += [self.define_from_variant(f"FARCALL_BUILD_{part.upper()}", part) for part in ("tools", "compat")]
        args += [self.define_from_variant(f"FARCALL_WITH_{part.upper()}", part) for part in ("tls", "ucx", "mpi")]
        return args + [self.define("FARCALL_UNITY_BUILD", True), self.define("FARCALL_WITH_CUDA", False)]
