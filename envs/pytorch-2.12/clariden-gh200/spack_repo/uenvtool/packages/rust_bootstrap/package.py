import platform

from spack_repo.builtin.packages.rust_bootstrap.package import RustBootstrap as Builtin

from spack.package import *

CHECKSUMS = {
    "aarch64": "26d6de84ac59da702aa8c2f903e3c344e3259da02e02ce92ad1c735916b29a4a",
    "x86_64": "542f517d0624cbee516627221482b166bf0ffe5fd560ec32beb778c01f5c99b6",
}


class RustBootstrap(Builtin):
    """The binary that builds Rust 1.89.0, for Linux."""

    if platform.machine() in CHECKSUMS:
        version("1.89.0", sha256=CHECKSUMS[platform.machine()])
