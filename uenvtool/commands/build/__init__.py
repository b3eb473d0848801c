"""`uenvtool build`: a recipe and a system become a Spack environment, resolved if Spack is here."""

from uenvtool.commands.build.build import build
from uenvtool.commands.build.request import BuildRequest

__all__ = ["BuildRequest", "build"]
