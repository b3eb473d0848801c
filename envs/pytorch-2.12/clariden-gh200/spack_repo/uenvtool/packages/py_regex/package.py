from spack_repo.builtin.packages.py_regex.package import PyRegex as Builtin

from spack.package import *


class PyRegex(Builtin):
    """regex 2025.11.3: as the published uenv pytorch/v2.9.1 has it."""

    git = "https://github.com/mrabarnett/mrab-regex.git"

    version("2025.11.3", tag="2025.11.3", commit="b01d6e7349f1f754f9576e85aa19575acff0c839")

    depends_on("py-setuptools@77.0.3:", type="build", when="@2025.11:")
