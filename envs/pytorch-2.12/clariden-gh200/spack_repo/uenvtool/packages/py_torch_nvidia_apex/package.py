from spack_repo.builtin.packages.py_torch_nvidia_apex.package import PyTorchNvidiaApex as Builtin

from spack.package import *


class PyTorchNvidiaApex(Builtin):
    """Apex as the published uenvs have it: the newest builtin tag is 24.04.01."""

    version("25.09", tag="25.09", commit="4bdecd06b3c4b2c0a8fb6603829a8f9f05a42b49", submodules=True)
    # the commit of pytorch/v2.6.0
    version("25.02.14", commit="b216eeee7dd91478745496919e9c0167cc4c41e3", submodules=True)
