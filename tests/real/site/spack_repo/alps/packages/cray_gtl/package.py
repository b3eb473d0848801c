from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayGtl(Package):
    """What the site's package asks of the solver."""

    has_code = False

    version("9.0.0")
    version("8.1.32", preferred=True)
    version("8.1.30")

    variant("cuda", default=False, description="For NVIDIA GPUs")
    variant("rocm", default=False, description="For AMD GPUs")

    depends_on("patchelf", type="build")
    depends_on("cuda@12", when="+cuda", type="link")
