"""The scripts in the documents on which the project is based. The project contains no copies of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.needs import skip_without
from tests.support.peers import SHARED

FOLDER = SHARED / "seeds"
_BLOCK = re.compile(r"^[ \t]*```(?:\{code-block\} )?(bash|toml)?[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_POD_SCRIPT = re.compile(r"^#!/usr/bin/env bash\n.*?^exit [^\n]*\n", re.MULTILINE | re.DOTALL)


def seed(number: int) -> str:
    """Return the text of a document, or skip the test if the documents are not next to the project."""
    found = sorted(FOLDER.glob(f"{number:03}_*.txt"))
    if not found:
        skip_without("the project's seeds", "copy them to shared/seeds next to the checkout")
    return found[0].read_text(encoding="utf-8")


def script(number: int, containing: str) -> str:
    """Return the first batch script, EDF or pod script in a document that contains a text."""
    text = seed(number)
    blocks = [re.sub(r"\A(?::.*\n)+\n*", "", found[2]) for found in _BLOCK.finditer(text)]
    blocks += [found[0] for found in _POD_SCRIPT.finditer(text)]
    scripts = [
        block for block in blocks if re.search(r"^#SBATCH --nodes|^image =|^#!|submit-dist", block, re.MULTILINE)
    ]
    return next(block for block in scripts if containing in block)


def written(folder: Path, number: int, containing: str) -> Path:
    """Write this script to a file, and return the path."""
    text = script(number, containing)
    path = folder / f"seed-{number:03}{'.toml' if re.search('^image =', text, re.MULTILINE) else '.sh'}"
    path.write_text(text, encoding="utf-8")
    return path
