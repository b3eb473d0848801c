from spack_repo.builtin.packages.gloo.package import Gloo as Builtin

from spack.package import *


class Gloo(Builtin):
    """gloo with CUDA code as C++14: GCC 14's headers are not C++11."""

    def patch(self):
        if self.spec.satisfies("%gcc@14:"):
            filter_file('GLOO_NVCC_FLAGS "-std=c++11"', 'GLOO_NVCC_FLAGS "-std=c++14"', "cmake/Cuda.cmake", string=True)
