from spack_repo.builtin.packages.py_hf_xet.package import PyHfXet as Builtin

from spack.package import *


class PyHfXet(Builtin):
    """hf-xet 1.2.0, for huggingface-hub 0.36: the builtin package ends at 1.1.5."""

    # the source distribution on PyPI
    version("1.2.0", sha256="a8c27070ca547293b6890c4bf389f713f80e8c478631432962bb7f4bc0bd7d7f")
