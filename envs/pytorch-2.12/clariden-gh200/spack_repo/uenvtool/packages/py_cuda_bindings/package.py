from spack_repo.builtin.packages.py_cuda_bindings.package import PyCudaBindings as Builtin

from spack.package import *


class PyCudaBindings(Builtin):
    """The bindings of CUDA 12.9.1: the builtin package ends at 12.9.0."""

    version("12.9.1", sha256="9c6c2da8ed59851acbb261b5fac80885d9dd2396a8bea0eba67908b811d7bb50")

    depends_on("cuda@12.9.1", when="@12.9.1")
