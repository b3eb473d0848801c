from spack_repo.builtin.packages.py_psutil.package import PyPsutil as Builtin

from spack.package import *


class PyPsutil(Builtin):
    """psutil 7.0.0: the builtin package goes from 6.1.1 to 7.1.0."""

    # the source distribution on PyPI
    version("7.0.0", sha256="7be9c3eba38beccb6495ea33afd982a44074b78f28c434a1f51cc07fd315c456")
