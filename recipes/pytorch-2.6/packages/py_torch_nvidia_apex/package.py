from spack_repo.builtin.packages.py_torch_nvidia_apex.package import PyTorchNvidiaApex as Builtin

from spack.package import *


class PyTorchNvidiaApex(Builtin):
    """Apex at the commit of the published uenv: the newest builtin tag is 24.04.01."""

    version("25.02.14", commit="b216eeee7dd91478745496919e9c0167cc4c41e3", submodules=True)
