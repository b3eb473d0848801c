from spack_repo.builtin.packages.libcxi.package import Libcxi as Builtin

from spack.package import *


class Libcxi(Builtin):
    """What libfabric's provider for Slingshot is built with, at the release that Alps runs."""

    # the commit of the tag, which the builtin package leaves open
    version("13.0.0", tag="release/shs-13.0.0", commit="4b7fc964bf5065539a631abf425ba5a1a340e5ba")
