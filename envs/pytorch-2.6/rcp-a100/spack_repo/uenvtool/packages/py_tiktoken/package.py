import platform

from spack_repo.builtin.packages.py_tiktoken.package import PyTiktoken as Builtin

from spack.package import *

WHEELS = {
    "aarch64": "6b231f5e8982c245ee3065cd84a4712d64692348bc609d84467c57b4b72dcbc5",
    "x86_64": "4177faa809bd55f699e88c96d9bb4635d22e3f59d635ba6fd9ffedf7150b9953",
}


class PyTiktoken(Builtin):
    """tiktoken 0.8.0 as a wheel: its source has no Cargo.lock, so that each build would take other crates."""

    machine = platform.machine()
    if machine in WHEELS:
        version(
            "0.8.0",
            sha256=WHEELS[machine],
            url="https://files.pythonhosted.org/packages/cp313/t/tiktoken/"
            f"tiktoken-0.8.0-cp313-cp313-manylinux_2_17_{machine}.manylinux2014_{machine}.whl",
            expand=False,
        )
