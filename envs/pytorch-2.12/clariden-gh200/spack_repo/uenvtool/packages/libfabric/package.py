from spack_repo.builtin.packages.libfabric.package import Libfabric as Builtin

from spack.package import *


class Libfabric(Builtin):
    """libfabric 2.4.0-dev: as the published uenv pytorch/v2.9.1 has it, without HPE's patch for NVSHMEM."""

    version("2.4.0-dev", commit="f8262817c337d615a1acceea6cd4ecb526ce548b")

    with default_args(type="build", when="@2.4.0-dev"):
        depends_on("autoconf")
        depends_on("automake")
        depends_on("libtool")
        depends_on("m4")

    @when("@2.4.0-dev")
    def autoreconf(self, spec, prefix):
        which("bash")("./autogen.sh")
