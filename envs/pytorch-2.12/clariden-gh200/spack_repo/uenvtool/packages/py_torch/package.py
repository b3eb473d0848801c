from spack_repo.builtin.packages.py_torch.package import PyTorch as Builtin

from spack.package import *


class PyTorch(Builtin):
    """PyTorch, with its workaround for a crash of GCC 14.2 also on CPUs with BF16, as the GH200's is."""

    def patch(self):
        super().patch()
        if self.spec.satisfies("@2.8:2.9 target=aarch64: %gcc@14"):
            filter_file(" && !defined(__ARM_FEATURE_BF16)", "", "aten/src/ATen/native/cpu/Unfold2d.cpp", string=True)
