from spack_repo.builtin.packages.abseil_cpp.package import AbseilCpp as Builtin

from spack.package import *


class AbseilCpp(Builtin):
    """Abseil 20250814.1, for protobuf 33: as the published uenv pytorch/v2.9.1 has it."""

    # GitHub's archive of the tag
    version("20250814.1", sha256="1692f77d1739bacf3f94337188b78583cf09bab7e420d2dc6c5605a4f86785a1")
