# SPDX-License-Identifier: BSD-3-Clause
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Tutti(CMakePackage, CudaPackage):
    """Trains ensembles of small neural networks, all members at the same time, with MPI,
    parallel HDF5 and CUDA."""

    license("BSD-3-Clause")

    # There is no archive of a release yet: `spack develop` builds a clone (packaging/README.md).
    version("0.1.0")

    variant("tests", default=False, description="Build the tests, and run them with --test")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+tests")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10.8:1.14+mpi+hl")
    depends_on("libyaml")
    depends_on("jansson@2.7:")
    depends_on("zlib-api")
    depends_on("xxhash@0.8:")
    depends_on("random123@1.09:")
    depends_on("cuda@11.8:", when="+cuda")
    depends_on("cmocka", type=("build", "test"), when="+tests")
    depends_on("python@3.9:", type="test", when="+tests")
    depends_on("py-h5py", type="test", when="+tests")

    conflicts("cuda_arch=none", when="+cuda", msg="Name the GPUs: cuda_arch=80,90")
    conflicts("cuda_arch=70", when="+cuda", msg="tutti needs sm_80 or newer")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_TESTING", "tests"),
            self.define_from_variant("TUTTI_CUDA", "cuda"),
            self.define("RANDOM123_DIR", self.spec["random123"].prefix.include),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
