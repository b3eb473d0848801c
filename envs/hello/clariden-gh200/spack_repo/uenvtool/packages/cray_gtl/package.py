from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CrayGtl(Package):
    """GPU transport layer of Cray MPICH: GPU-aware MPI on the GH200 nodes.

    The file system of the machine holds it: declare it as an external in the
    system's packages.yaml. There is nothing here to fetch or to build.
    """

    homepage = "https://www.hpe.com/us/en/compute/hpc/hpc-software.html"
    has_code = False

    version("8.1.32")

    variant("cuda", default=False, description="For NVIDIA GPUs")

    def install(self, spec, prefix):
        raise InstallError(f"{spec.name} belongs to the system: add it as an external")
