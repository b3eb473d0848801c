from spack_repo.builtin.packages.py_triton.package import PyTriton as Builtin

from spack.package import *


class PyTriton(Builtin):
    """triton 3.5.1, the one that torch 2.9.1 is released with: the builtin package ends at 3.4.0."""

    # the checksum is the one in the published recipe of pytorch/v2.9.1
    version("3.5.1", sha256="03d7c41f6f2dc1dfa3445776c4a893dc34b1e0ece42b953f036c071ff6409b80")
