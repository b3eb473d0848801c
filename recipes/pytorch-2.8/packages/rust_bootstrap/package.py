import platform

from spack_repo.builtin.packages.rust_bootstrap.package import RustBootstrap as Builtin

from spack.package import *

CHECKSUMS = {
    "aarch64": "29c5a608861cc9c06d3f86852a7d7b1a868de2d7ab90d4ff625aeebfb9383390",
    "x86_64": "bad9a353330d9f409fe9db790da5701074112f804073506bb2808dd97b940b3c",
}


class RustBootstrap(Builtin):
    """The binary that builds Rust 1.91.0, for Linux."""

    if platform.machine() in CHECKSUMS:
        version("1.91.0", sha256=CHECKSUMS[platform.machine()])
