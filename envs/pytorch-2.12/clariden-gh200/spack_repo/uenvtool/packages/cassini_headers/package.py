from spack_repo.builtin.packages.cassini_headers.package import CassiniHeaders as Builtin

from spack.package import *


class CassiniHeaders(Builtin):
    """What libfabric's provider for Slingshot is built with, at the release that Alps runs."""

    # the commit of the tag, which the builtin package leaves open
    version("13.0.0", tag="release/shs-13.0.0", commit="144056ff2143b99ec08b3f1cd07c5e3ae176878d")
