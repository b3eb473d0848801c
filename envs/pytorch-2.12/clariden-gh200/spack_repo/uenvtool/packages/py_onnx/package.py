from spack_repo.builtin.packages.py_onnx.package import PyOnnx as Builtin

from spack.package import *


class PyOnnx(Builtin):
    """ONNX 1.20.0: as the published uenv pytorch/v2.9.1 has it."""

    # the source distribution on PyPI
    version("1.20.0", sha256="1a93ec69996b4556062d552ed1aa0671978cfd3c17a40bf4c89a1ae169c6a4ad")
