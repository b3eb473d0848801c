import platform

from spack_repo.builtin.packages.py_wandb.package import PyWandb as Builtin

from spack.package import *

# the wheels of the published recipe: from source, wandb's core takes crates and Go modules from the internet
WHEELS = {
    "aarch64": (
        "56/07/47ab3b4f0f4a32d9269ecb60aa71da3e426faa2abe51c4f000778e2696c3",
        "8a074ad070c4e8cbb03b2149a98abbe2d7562220f095a21c736e1abbca399eef",
    ),
    "x86_64": (
        "89/d0/737d26d709bd7bc3f6b2250f41fda3d0787239cfdbd6eb13057c64c81ace",
        "5dc6c7180a5bf1eb5bd9cab8a1886fd980c76d54253c967082fe19d197443a2d",
    ),
}


class PyWandb(Builtin):
    """Weights & Biases 0.19.9: the builtin package goes from 0.16.6 to 0.21.0."""

    machine = platform.machine()
    if machine in WHEELS:
        folder, checksum = WHEELS[machine]
        version(
            "0.19.9",
            sha256=checksum,
            url=f"https://files.pythonhosted.org/packages/{folder}/"
            f"wandb-0.19.9-py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.whl",
            expand=False,
        )
