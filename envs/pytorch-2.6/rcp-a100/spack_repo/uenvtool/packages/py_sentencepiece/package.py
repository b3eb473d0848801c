from spack_repo.builtin.packages.py_sentencepiece.package import PySentencepiece as Builtin

from spack.package import *


class PySentencepiece(Builtin):
    """Python bindings of sentencepiece 0.1.99: the builtin package goes from 0.1.91 to 0.2.1."""

    # GitHub's archive of the tag v0.1.99; the checksum is the one in the published recipe
    version("0.1.99", sha256="63617eaf56c7a3857597dcd8780461f57dd21381b56a27716ef7d7e02e14ced4")

    depends_on("sentencepiece@0.1.99", when="@0.1.99")
