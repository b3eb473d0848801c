from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayPals(Package):
    """Parallel application launch service of the Cray programming environment.

    The file system of the machine holds it: declare it as an external in the
    system's packages.yaml. There is nothing here to fetch or to build.
    """

    homepage = "https://www.hpe.com/us/en/compute/hpc/hpc-software.html"
    has_code = False

    version("1.3.2")

    def install(self, spec, prefix):
        raise InstallError(f"{spec.name} belongs to the system: add it as an external")
