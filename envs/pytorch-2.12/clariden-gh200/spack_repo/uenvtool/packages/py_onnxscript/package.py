from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyOnnxscript(PythonPackage):
    """ONNX functions and models written in Python."""

    homepage = "https://github.com/microsoft/onnxscript"
    url = "https://github.com/microsoft/onnxscript/archive/refs/tags/v0.5.6.tar.gz"

    license("MIT")

    version("0.5.6", sha256="63d2fd27c05dc0f8f483ffc21f239f0c600ad7dc152acdbc2d151e88583f6a91")

    depends_on("py-setuptools@70:", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.9:")
        depends_on("py-numpy")
        depends_on("py-onnx@1.16:")
        depends_on("py-onnx-ir@0.1.12:0.1")
        depends_on("py-packaging")
        depends_on("py-typing-extensions@4.10:")
        depends_on("py-ml-dtypes")
