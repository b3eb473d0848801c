from spack_repo.builtin.packages.rust.package import Rust as Builtin

from spack.package import *


class Rust(Builtin):
    """Rust 1.91.0: as the published uenv pytorch/v2.8.0 has it."""

    version("1.91.0", sha256="327f528151753013f0a2b2c7f48955a033d718f269a4bc586314d675d0d43e8a")

    depends_on("rust-bootstrap@1.90:1.91", type="build", when="@1.91")
