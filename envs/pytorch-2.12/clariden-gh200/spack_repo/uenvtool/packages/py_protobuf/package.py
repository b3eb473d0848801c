from spack_repo.builtin.packages.py_protobuf.package import PyProtobuf as Builtin

from spack.package import *


class PyProtobuf(Builtin):
    """The Python side of protobuf 33.1: the builtin package ends at 6.32."""

    # the source distribution on PyPI
    version("6.33.1", sha256="97f65757e8d09870de6fd973aeddb92f85435607235d20b2dfed93405d00c85b")

    depends_on("protobuf@33", when="@6.33")
