from spack_repo.builtin.packages.py_wandb.package import PyWandb as Builtin

from spack.package import *


class PyWandb(Builtin):
    """Weights & Biases 0.19.9: the builtin package goes from 0.16.6 to 0.21.0."""

    # the source distribution on PyPI
    version("0.19.9", sha256="a38881aa7770e6ea0f792268250e5b888a245c2e4829e5830ce08f5fa95a2ad1")
