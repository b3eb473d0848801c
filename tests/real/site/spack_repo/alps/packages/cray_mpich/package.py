from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayMpich(Package):
    """What the site's package asks of the solver."""

    has_code = False

    version("9.0.0")
    version("8.1.32", preferred=True)
    version("8.1.30")

    variant("cuda", default=False, description="For NVIDIA GPUs")
    variant("rocm", default=False, description="For AMD GPUs")

    provides("mpi")

    for language in ("c", "cxx", "fortran", "patchelf"):
        depends_on(language, type="build")
    for known in ("9.0.0", "8.1.32", "8.1.30"):
        depends_on(f"cray-gtl@{known} +cuda", when=f"@{known} +cuda", type="link")
    depends_on("libfabric@1:", type="link")
    depends_on("cray-pmi@:6.1.15", type="link")
    depends_on("xpmem", type="link")
