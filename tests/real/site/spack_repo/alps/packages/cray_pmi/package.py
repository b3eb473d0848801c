import platform

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayPmi(Package):
    """What the site's package asks of the solver."""

    has_code = False

    version("6.1.15")
    if platform.machine() == "x86_64":
        version("6.1.12")

    depends_on("patchelf", type="build")
    depends_on("cray-pals@1.3.2", when="@6.1.13:", type="link")
    depends_on("cray-pals@1.2.12", when="@6.1.12", type="link")
