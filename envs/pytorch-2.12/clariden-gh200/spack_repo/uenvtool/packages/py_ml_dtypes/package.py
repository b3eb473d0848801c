from spack_repo.builtin.packages.py_ml_dtypes.package import PyMlDtypes as Builtin

from spack.package import *


class PyMlDtypes(Builtin):
    """ml-dtypes 0.5.3: as the published uenv pytorch/v2.9.1 has it."""

    version("0.5.3", tag="v0.5.3", commit="998e58af3d0b1dba12e22b1dfc26810aa36d6f70")
