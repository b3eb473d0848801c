"""Stand-ins for programs."""

from __future__ import annotations

import sys
from pathlib import Path


def program(path: Path, text: str) -> Path:
    """Write a program, which is an sh script unless its text begins with `#!`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def spack_of_python(folder: Path, code: str) -> Path:
    """Write a stand-in for Spack from Python code, and return its directory."""
    program(folder / "bin" / "spack", f"#!{sys.executable}\nimport sys\n{code}\n")
    return folder
