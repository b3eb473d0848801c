"""Checks the conda packages of an environment.yml against the base; they are not installed into an overlay."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uenvtool.core.errors import AnswerIsNo, Position, Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base
from uenvtool.venv.compat import satisfies

_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
"""conda-forge packages that have another name on PyPI."""
_SPEC = re.compile(r"(?:\S+::)?([\w.-]+)\s*(.*)")
PYTHON, TORCH = "python", "torch"


def held_against(base: Base, specs: Sequence[tuple[Position, str]]) -> tuple[str, ...]:
    """Return notes about conda packages: the ones that the base has, with versions, and the ones that it lacks.

    specs: the specs of an environment.yml with their positions. Raises AnswerIsNo if the base has another Python or
    torch.
    """
    problems: list[Problem] = []
    present: list[tuple[str, str]] = []
    missing_specs: list[tuple[str, str]] = []
    for position, spec in specs:
        match = _SPEC.match(spec)
        name = canonical(match[1]) if match else ""
        name = _NAMES.get(name, name)
        package = base.packages.get(name)
        version = base.version if name == PYTHON else package.version if package else ""
        if name == "pip":
            continue
        if not match or not version:
            missing_specs.append((position.file, spec))
            continue
        fits = _fits(match[2], version)
        if not fits and name in (PYTHON, TORCH):
            hint = (
                f"load a base with that version, or change the line to `{match[1]}`, "
                "because uenvtool does not install conda packages"
            )
            problems.append(Problem(f"{spec}: the base has {name} {version}", position, hint))
        elif name != PYTHON:
            present.append((position.file, f"{name} {version}{'' if fits else f' (requested: {spec})'}"))
    AnswerIsNo.raise_any(problems)
    missing = "uenvtool does not install conda packages; add the packages that you need to the command"
    return (
        *(f"{file}: the base has {', '.join(texts)}" for file, texts in grouped(present).items()),
        *(f"{file}: {missing}: {', '.join(texts)}" for file, texts in grouped(missing_specs).items()),
    )


def _fits(specification: str, version: str) -> bool:
    """Return whether a version matches a conda version specification, or True if the specification cannot be read.

    `=1.2` matches every version that begins with 1.2, and `1.2` matches only that version. A build may follow (conda's
    documentation, "Package match specifications").
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    parts = re.sub(r"([<>=!~,])\s+", r"\1", specification).split()
    text = parts[0] if parts else ""
    if re.match(r"=?[\w.*]", text):
        fuzzy = text.startswith("=")
        text = text.removeprefix("=").partition("=")[0]
        text = f"=={text}" if text.endswith(".*") or not fuzzy else f"=={text}.*"
    try:
        return satisfies(SpecifierSet(text), version)
    except InvalidSpecifier:
        return True
