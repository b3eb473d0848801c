from spack_repo.builtin.packages.rust.package import Rust as Builtin

from spack.package import *


class Rust(Builtin):
    """Rust 1.89.0: as the published uenv pytorch/v2.9.1 has it."""

    version("1.89.0", sha256="2576f9f440dd99b0151bd28f59aa0ac6102d5c4f3ed4ef8a810c8dd05057250d")

    depends_on("rust-bootstrap@1.88:1.89", type="build", when="@1.89")
