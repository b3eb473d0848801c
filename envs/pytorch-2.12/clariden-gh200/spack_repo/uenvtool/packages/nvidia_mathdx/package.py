from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class NvidiaMathdx(Package):
    """NVIDIA's math libraries for device code (cuBLASDx, cuFFTDx, cuSolverDx, cuRANDDx): headers and fat binaries."""

    homepage = "https://developer.nvidia.com/mathdx"
    url = "https://developer.nvidia.com/downloads/compute/cuFFTDx/redist/cuFFTDx/cuda12/nvidia-mathdx-25.06.1-cuda12.tar.gz"

    version("25.06.1-cuda12", sha256="d4952f6e1a7864d29d9ec4e01c21628d84086e941cf4a3da2df1e11ba5f13f84")

    depends_on("cuda@12")
    depends_on("cutlass@3.9:")

    def install(self, spec, prefix):
        (root,) = [path.rsplit("/include", 1)[0] for path in find(".", "include", max_depth=3)][:1]
        for folder in ("include", "lib"):
            install_tree(join_path(root, folder), join_path(prefix, folder))

    def setup_dependent_build_environment(self, env, dependent_spec):
        env.set("mathdx_ROOT", self.prefix)
        env.set("mathdx_CUTLASS_ROOT", self.spec["cutlass"].prefix)
