from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCudaCore(PythonPackage):
    """CUDA's runtime from Python."""

    homepage = "https://github.com/NVIDIA/cuda-python"
    url = "https://github.com/NVIDIA/cuda-python/releases/download/cuda-core-v0.2.0/cuda-python-cuda-core-v0.2.0.tar.gz"

    version("0.2.0", sha256="380d33e26e808d796a600b557e5b7de6bd6677776e9a6736372f14ff80e6b664")

    build_directory = "cuda_core"

    depends_on("cuda@12:12.9")
    depends_on("py-setuptools@64:", type="build")
    depends_on("py-cython", type="build")
    depends_on("py-cuda-bindings", type=("build", "run"))
    depends_on("py-pyclibrary", type=("build", "run"))
    depends_on("python@3.10:", type=("build", "run"))

    def setup_build_environment(self, env):
        env.append_path("LIBRARY_PATH", self.spec["cuda"].prefix.lib64)
