from spack_repo.builtin.packages.aws_ofi_nccl.package import AwsOfiNccl as Builtin

from spack.package import *


class AwsOfiNccl(Builtin):
    """The plugin between NCCL 2.29 and libfabric 2.4: the builtin package ends at 1.17.2."""

    # the release; the published uenv has the commit eb9877e before it, with a patch of HPE's
    version("1.18.0", sha256="12fd67f05872600c485d74b8e3c3a640d063322371170f3a9c17d67a5a2ca681")
