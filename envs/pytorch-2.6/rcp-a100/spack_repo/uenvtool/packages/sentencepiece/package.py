from spack_repo.builtin.packages.sentencepiece.package import Sentencepiece as Builtin

from spack.package import *


class Sentencepiece(Builtin):
    """sentencepiece 0.1.99: the builtin package goes from 0.1.91 to 0.2.1."""

    # GitHub's archive of the tag v0.1.99; the checksum is the one in the published recipe
    version("0.1.99", sha256="63617eaf56c7a3857597dcd8780461f57dd21381b56a27716ef7d7e02e14ced4")
