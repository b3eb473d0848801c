from spack_repo.builtin.packages.py_protobuf.package import PyProtobuf as Builtin

from spack.package import *


class PyProtobuf(Builtin):
    """The Python side of protobuf 33.0: the builtin package ends at 6.32."""

    # the source distribution on PyPI
    version("6.33.0", sha256="140303d5c8d2037730c548f8c7b93b20bb1dc301be280c378b82b8894589c954")

    depends_on("protobuf@33", when="@6.33")
