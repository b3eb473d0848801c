"""Where to begin, in three lines, by what is loaded in this shell."""

from __future__ import annotations

from collections.abc import Mapping

from uenvtool.core.result import Result
from uenvtool.core.session import container_name, in_container, loaded_views
from uenvtool.knowledge.recognise import recognised


def start(environ: Mapping[str, str]) -> Result:
    """Return what a user can do next here: packages of their own, a job, and where all the rest is."""
    system = recognised(environ)
    return Result(text="\n".join([_packages(environ), _job(system[0] if system else None), _rest(system is None)]))


def _packages(environ: Mapping[str, str]) -> str:
    views = loaded_views(environ)
    if views:
        return f"The uenv {views[0].uenv} is loaded. Lay packages of your own over it: uenvtool venv .venv PACKAGE"
    if in_container(environ):
        name = container_name(environ)
        here = f"This is the container {name}." if name else "This is a container."
        return f"{here} Lay packages of your own over it: uenvtool venv .venv PACKAGE"
    return "No uenv is loaded. Lay packages of your own over one: uenvtool venv .venv PACKAGE --uenv IMAGE"


def _job(system: str | None) -> str:
    if system is None:
        return (
            "Write a job for a system that `uenvtool list systems` names: uenvtool job --system NAME -- python train.py"
        )
    return f"This machine is {system}. Write a tuned job: uenvtool job --account NAME -- python train.py"


def _rest(is_own_machine: bool) -> str:
    recipe = "hello" if is_own_machine else "pytorch-2.9"
    return f"Write the environment of an image: uenvtool build {recipe}. All commands: uenvtool --help"
