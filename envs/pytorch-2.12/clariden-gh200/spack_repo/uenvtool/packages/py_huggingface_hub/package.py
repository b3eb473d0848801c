from spack_repo.builtin.packages.py_huggingface_hub.package import PyHuggingfaceHub as Builtin

from spack.package import *


class PyHuggingfaceHub(Builtin):
    """huggingface-hub 0.36.0: as the published uenv pytorch/v2.9.1 has it."""

    # the source distribution on PyPI
    version("0.36.0", sha256="47b3f0e2539c39bf5cde015d63b72ec49baff67b6931c3d97f3f84532e2b8d25")
