from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCudaPathfinder(PythonPackage):
    """Finds CUDA's libraries for Python packages."""

    homepage = "https://github.com/NVIDIA/cuda-python"
    url = "https://github.com/NVIDIA/cuda-python/releases/download/cuda-pathfinder-v1.2.3/cuda-python-cuda-pathfinder-v1.2.3.tar.gz"

    version("1.2.3", sha256="366e5852499cedfc4a469631a9ca332ef59d5a29d9aafdeda5a78265f314b1d0")

    build_directory = "cuda_pathfinder"

    depends_on("cuda@12:12.9")
    depends_on("py-setuptools@64:", type="build")
    depends_on("py-wheel", type="build")
    depends_on("python@3.9:", type=("build", "run"))

    def setup_build_environment(self, env):
        env.append_path("LIBRARY_PATH", self.spec["cuda"].prefix.lib64)
