"""What a build without isolation finds beside the base: the tools that builds of Python extensions take for granted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import UenvtoolError
from uenvtool.venv.base import Base
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.uv import Uv
from uenvtool.venv.uv_failures import DiskFull

TOOLS = ("setuptools", "wheel", "packaging", "ninja")
"""setuptools and wheel are what a build needs if it names nothing (PEP 517); torch.utils.cpp_extension imports
packaging and setuptools, and compiles with ninja if it is there."""


def building_on(uv: Uv, base: Base, request: UserRequest) -> Uv:
    """uv as it has to be to build on the base; as it is if nothing is built so.

    The base's packages come first. What it lacks of the tools, and what the user names beside what is built, lies
    in a folder behind them and is no part of the overlay.
    """
    built = uv.settings.built_on_base
    if not built or uv.build_path:
        return uv
    named = [
        requirement.text
        for requirement in request.requirements
        if requirement.is_of_index and requirement.name not in {*built, *TOOLS, *base.packages}
    ]
    folder = uv.work / "tools"
    missing = [name for name in TOOLS if name not in base.packages]
    for texts in (missing, *([text] for text in named)):
        _install(uv, base, folder, texts)
    return replace(uv, build_path=(*base.folders, str(folder)))


def _install(uv: Uv, base: Base, folder: Path, texts: Sequence[str]) -> None:
    """Install into a folder of its own; if the index lacks one, the build says what it misses."""
    isolated = replace(uv, settings=replace(uv.settings, built_on_base=()))
    words: list[str | Path] = ["pip", "install", "--quiet", "--no-deps", "--python", base.python, "--target", folder]
    words += ["--only-binary", ":all:"]  # what is built itself is among what the user names
    try:
        if texts:
            isolated.run([*words, *texts])
    except DiskFull:
        raise
    except UenvtoolError:
        return
