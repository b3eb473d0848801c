"""A resolved environment, and a Spack that stands in for one: nothing is built."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.programs import program
from tests.support.project import ROOT

ENVIRONMENT = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200"


def spack_that_only_has_a_version(folder: Path) -> Path:
    """A Spack that fails whatever it is asked but its version: where it runs nothing is spared."""
    code = "import sys\nprint('1.1.0') if '--version' in sys.argv else sys.exit(7)\n"
    program(folder / "bin" / "spack", f"#!{sys.executable}\n{code}")
    return folder
