from spack_repo.builtin.packages.py_sentry_sdk.package import PySentrySdk as Builtin

from spack.package import *


class PySentrySdk(Builtin):
    """Sentry's client 2.22.0, used by wandb: the builtin package goes from 1.5.5 to 2.34.1."""

    # the source distribution on PyPI
    version("2.22.0", sha256="b4bf43bb38f547c84b2eadcefbe389b36ef75f3f38253d7a74d6b928c07ae944")

    depends_on("py-urllib3@1.26.11:", type=("build", "run"), when="@2.22:")
