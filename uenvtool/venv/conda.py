"""Holds what a conda environment asks for against the base: conda's packages are not installed into an overlay."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uenvtool.core.errors import AnswerIsNo, Position, Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base
from uenvtool.venv.compat import satisfies

_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
"""Packages of conda-forge that PyPI has under another name."""
_SPEC = re.compile(r"(?:\S+::)?([\w.-]+)\s*(.*)")
PYTHON, TORCH = "python", "torch"


def held_against(base: Base, asked: Sequence[tuple[Position, str]]) -> tuple[str, ...]:
    """Return what to know of conda's packages: which the base has, in which version, and which it lacks.

    asked: specs of an environment.yml with their places. Raises AnswerIsNo if the base has another Python or torch.
    """
    problems: list[Problem] = []
    has: list[tuple[str, str]] = []
    lacks: list[tuple[str, str]] = []
    for place, spec in asked:
        found = _SPEC.match(spec)
        name = canonical(found[1]) if found else ""
        name = _NAMES.get(name, name)
        package = base.packages.get(name)
        version = base.version if name == PYTHON else package.version if package else ""
        if name == "pip":
            continue
        if not found or not version:
            lacks.append((place.file, spec))
            continue
        fits = _fits(found[2], version)
        if not fits and name in (PYTHON, TORCH):
            hint = f"load a base that fits, or make that line `{found[1]}`: conda's packages are not installed"
            problems.append(Problem(f"{spec}: the base has {name} {version}", place, hint))
        elif name != PYTHON:
            has.append((place.file, f"{name} {version}{'' if fits else f' (asked for: {spec})'}"))
    AnswerIsNo.raise_any(problems)
    missing = "conda's packages are not installed, name those that you need"
    return (
        *(f"{file}: the base has {', '.join(words)}" for file, words in grouped(has).items()),
        *(f"{file}: {missing}: {', '.join(words)}" for file, words in grouped(lacks).items()),
    )


def _fits(wanted: str, version: str) -> bool:
    """Tell if a version is what conda's words ask for, also if nobody here can read them.

    `=1.2` has all that begins with 1.2, `1.2` that alone, and a build may follow (conda's documentation, "Package match
    specifications").
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    words = re.sub(r"([<>=!~,])\s+", r"\1", wanted).split()
    text = words[0] if words else ""
    if re.match(r"=?[\w.*]", text):
        fuzzy = text.startswith("=")
        text = text.removeprefix("=").partition("=")[0]
        text = f"=={text}" if text.endswith(".*") or not fuzzy else f"=={text}.*"
    try:
        return satisfies(SpecifierSet(text), version)
    except InvalidSpecifier:
        return True
