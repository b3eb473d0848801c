"""Where to begin, in three lines, by what is loaded in this shell."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from uenvtool.core.result import Result
from uenvtool.core.session import KUBERNETES, container_name, current_job, in_container, loaded_views
from uenvtool.knowledge.recognise import recognised


def start(environ: Mapping[str, str]) -> Result:
    """Return what a user can do next here: packages of their own, a job, and where all the rest is."""
    system = recognised(environ)
    return Result(
        text="\n".join([_packages(environ), _job(system[0] if system else None, environ), _rest(system is None)])
    )


def _packages(environ: Mapping[str, str]) -> str:
    views = loaded_views(environ)
    command = "Lay packages of your own over it: `uenvtool venv .venv PACKAGE`"
    if views:
        return f"The uenv {views[0].uenv} is loaded. {command}"
    if in_container(environ):
        name = container_name(environ)
        return f"This is {f'the container {name}' if name else 'a container'}. {command}"
    if _has_uenv(environ):
        return "No uenv is loaded. Lay packages of your own over one: `uenvtool venv .venv PACKAGE --uenv IMAGE`"
    return f"Load the module, or start the container, that has your PyTorch. {command}"


def _job(system: str | None, environ: Mapping[str, str]) -> str:
    if system is None:
        return "Write a job for a system of `uenvtool list systems`: `uenvtool job --system NAME -- python train.py`"
    job = current_job(environ)
    is_pod = job is not None and job.scheduler == KUBERNETES
    needs_image = _has_uenv(environ) and not loaded_views(environ)
    options = [*([] if is_pod else ["--account NAME"]), *(["--image IMAGE"] if needs_image else [])]
    command = " ".join(["uenvtool job", *options, "-- python train.py"])
    return f"This machine is {system}. Write a tuned job: `{command}`"


def _rest(is_own_machine: bool) -> str:
    recipe = "hello" if is_own_machine else "pytorch-2.9"
    return f"Write the environment of an image: `uenvtool build {recipe}`. All commands: `uenvtool --help`"


def _has_uenv(environ: Mapping[str, str]) -> bool:
    return shutil.which("uenv", path=environ.get("PATH")) is not None
