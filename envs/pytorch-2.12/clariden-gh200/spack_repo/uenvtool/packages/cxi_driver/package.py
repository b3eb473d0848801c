from spack_repo.builtin.packages.cxi_driver.package import CxiDriver as Builtin

from spack.package import *


class CxiDriver(Builtin):
    """What libfabric's provider for Slingshot is built with, at the release that Alps runs."""

    # the commit of the tag, which the builtin package leaves open
    version("13.0.0", tag="release/shs-13.0.0", commit="f62ae06d0b05774eb8dc4d8f347b4eb881ae35cb")
