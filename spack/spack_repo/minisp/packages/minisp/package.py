# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Minisp(CMakePackage):
    """Proxy app for long-context transformer training: the arithmetic and the communication of a training
    step under the ways in which a sequence is split over ranks, with a check of its own results."""

    # The repository that this recipe is part of: a clone installs itself, also without a network.
    homepage = Path(__file__).resolve().parents[5].as_uri()
    git = homepage

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("benchmarks", default=False, description="Build minisp_bench")
    variant("onednn", default=False, description="oneDNN for fp32 matrix products on the host")
    variant("openmp", default=False, description="Threads by Kokkos' OpenMP backend")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("git", type="build")

    depends_on("mpi@3:")
    depends_on("hdf5@1.10: +mpi")
    depends_on("blas")
    depends_on("kokkos@4: +serial")
    depends_on("kokkos +openmp", when="+openmp")
    depends_on("kokkos-kernels +blas layouts=right scalars=float,double")
    depends_on("tomlplusplus@3.3:")
    depends_on("cli11@2.1:")
    depends_on("nlohmann-json@3.11:")
    depends_on("fmt@9:")
    depends_on("onednn@2.5:", when="+onednn")
    depends_on("benchmark@1.7:", when="+benchmarks")
    depends_on("googletest@1.12: +gmock", type="test")

    def cmake_args(self):
        return [
            self.define("MINISP_ENABLE_TESTS", self.run_tests),
            # Spack passes the target's flags itself, and the building machine need not be the running one.
            self.define("MINISP_ENABLE_NATIVE", False),
            self.define_from_variant("MINISP_ENABLE_BENCHMARKS", "benchmarks"),
            self.define_from_variant("MINISP_ENABLE_ONEDNN", "onednn"),
        ]

    def check(self):
        with working_dir(self.build_directory):
            Executable(self.spec["cmake"].prefix.bin.ctest)("--output-on-failure", "-L", "unit")
