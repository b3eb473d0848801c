from spack_repo.builtin.packages.cray_pmi.package import CrayPmi as Builtin

from spack.package import *


class CrayPmi(Builtin):
    """Process management interface of Cray MPICH.

    The builtin package stops at 5.0.17; Cray MPICH 8.1.32 is used with 6.1.15.
    It is an external of the system, so a version needs no checksum.
    """

    version("6.1.15")
