from spack_repo.builtin.packages.cutlass.package import Cutlass as Builtin

from spack.package import *


class Cutlass(Builtin):
    """CUTLASS without its examples, which take hours to compile and are not installed."""

    def cmake_args(self):
        return [*super().cmake_args(), self.define("CUTLASS_ENABLE_EXAMPLES", False)]
