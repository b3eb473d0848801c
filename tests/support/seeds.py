"""The scripts of the documents that the project came from, read where they lie; none is copied into the project."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.needs import skip_without
from tests.support.peers import SHARED

FOLDER = SHARED / "seeds"
_BLOCK = re.compile(r"^[ \t]*```(?:\{code-block\} )?(bash|toml)?[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_POD_SCRIPT = re.compile(r"^#!/usr/bin/env bash\n.*?^exit [^\n]*\n", re.MULTILINE | re.DOTALL)


def seed(number: int) -> str:
    """The text of a seed; skips the test if the folder is not beside the project."""
    found = sorted(FOLDER.glob(f"{number:03}_*.txt"))
    if not found:
        skip_without("the project's seeds", "put them into shared/seeds beside the checkout")
    return found[0].read_text(encoding="utf-8")


def script(number: int, containing: str) -> str:
    """The first batch script, EDF, or pod script of a seed that contains a text."""
    text = seed(number)
    blocks = [re.sub(r"\A(?::.*\n)+\n*", "", found[2]) for found in _BLOCK.finditer(text)]
    blocks += [found[0] for found in _POD_SCRIPT.finditer(text)]
    scripts = [
        block for block in blocks if re.search(r"^#SBATCH --nodes|^image =|^#!|submit-dist", block, re.MULTILINE)
    ]
    return next(block for block in scripts if containing in block)


def written(folder: Path, number: int, containing: str) -> Path:
    """The same as a file."""
    text = script(number, containing)
    path = folder / f"seed-{number:03}{'.toml' if re.search('^image =', text, re.MULTILINE) else '.sh'}"
    path.write_text(text, encoding="utf-8")
    return path
