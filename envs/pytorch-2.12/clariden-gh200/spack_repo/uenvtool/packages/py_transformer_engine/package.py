from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyTransformerEngine(PythonPackage):
    """NVIDIA's kernels for transformer models, with FP8 on Hopper.

    Not an extension of the builtin package: its versions end at 1.4 and it ties
    every version to flash-attn 2.2 to 2.4.2, accelerate and datasets, which the
    2.x series does not ask for. The dependencies below are those that setup.py
    names at this commit.
    """

    homepage = "https://github.com/NVIDIA/TransformerEngine"
    git = "https://github.com/NVIDIA/TransformerEngine.git"
    submodules = True

    license("Apache-2.0")

    version("2.11", tag="v2.11", commit="c188b533cc3721ca9c6bbfd26148f5cf60108c25")
    version("2.8", tag="v2.8", commit="40c69e751a47ec87786283e125c5eb264101270f")
    # build_tools/VERSION.txt says 2.3.0.dev0 at this commit: the one in the published uenv
    version("2.3.0.dev0", commit="dd4c17dc3305cd9bcb1619a49177845068d01fbd")

    variant("userbuffers", default=True, description="Overlap of communication through MPI")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-setuptools", type="build")
    depends_on("py-pybind11", type=("build", "link"))
    depends_on("cuda@12:", type=("build", "link", "run"))
    depends_on("cudnn@9:", type=("build", "link", "run"))
    depends_on("mpi", when="+userbuffers")

    with default_args(type=("build", "run")):
        depends_on("python@3.8:3.13")
        depends_on("py-torch@2.1:+cuda+cudnn")
        depends_on("py-pydantic")
        depends_on("py-importlib-metadata@1:")
        depends_on("py-packaging")
        depends_on("py-einops")
        depends_on("py-onnx", when="@2.8:")
        depends_on("py-onnxscript", when="@2.8:")

    def patch(self):
        # the upper bound in setup.py is a metadata check only: python 3.13 is what we build for
        filter_file("<3.13", "<3.14", "setup.py", string=True)

    def setup_build_environment(self, env):
        env.set("NVTE_FRAMEWORK", "pytorch")
        env.set("CUDNN_PATH", self.spec["cudnn"].prefix)
        env.set("MAX_JOBS", str(make_jobs))
        archs = self.spec["py-torch"].variants["cuda_arch"].value
        env.set("NVTE_CUDA_ARCHS", ";".join(archs))
        if self.spec.satisfies("+userbuffers"):
            env.set("NVTE_UB_WITH_MPI", "1")
            env.set("MPI_HOME", self.spec["mpi"].prefix)
