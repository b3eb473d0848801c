from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyCudaPython(PythonPackage):
    """The package that brings NVIDIA's Python packages for CUDA at one version."""

    homepage = "https://github.com/NVIDIA/cuda-python"
    url = "https://github.com/NVIDIA/cuda-python/releases/download/v12.9.1/cuda-python-v12.9.1.tar.gz"

    version("12.9.1", sha256="9c6c2da8ed59851acbb261b5fac80885d9dd2396a8bea0eba67908b811d7bb50")

    build_directory = "cuda_python"

    depends_on("cuda@12:12.9")
    depends_on("py-setuptools@64:", type="build")
    depends_on("py-cuda-bindings@12.9.1", type=("build", "run"))
    depends_on("python@3.9:", type=("build", "run"))

    def setup_build_environment(self, env):
        env.append_path("LIBRARY_PATH", self.spec["cuda"].prefix.lib64)
