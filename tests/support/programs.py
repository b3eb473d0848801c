"""Programs that stand in for others."""

from __future__ import annotations

import sys
from pathlib import Path


def program(path: Path, text: str) -> Path:
    """Write a program; one of sh, if its text does not say whose it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def spack_of_python(folder: Path, code: str) -> Path:
    """Write a Spack of some lines of Python; gives its folder."""
    program(folder / "bin" / "spack", f"#!{sys.executable}\nimport sys\n{code}\n")
    return folder
