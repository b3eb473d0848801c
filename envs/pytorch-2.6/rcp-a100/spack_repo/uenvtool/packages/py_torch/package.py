from spack_repo.builtin.packages.py_torch.package import PyTorch as Builtin

from spack.package import *


class PyTorch(Builtin):
    """PyTorch, with cuDNN 9.2 allowed for the 2.6 series.

    The builtin package caps cuDNN at 9.0 for 2.3 to 2.7. The published uenv was
    built and run with 2.6.0 and cuDNN 9.2.0.82 on the same GPUs, so the cap is
    replaced for this recipe. Nothing else changes.
    """


# A KeyError here means that upstream has moved the cap: look at it again.
PyTorch.dependencies[Spec("@2.3:2.7+cudnn")]["cudnn"].spec = Spec("cudnn@8.5:9.2")
