import platform

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayPals(Package):
    """What the site's package asks of the solver."""

    has_code = False

    version("1.3.2" if platform.machine() == "aarch64" else "1.2.12")

    depends_on("patchelf", type="build")
