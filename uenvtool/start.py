"""The next steps for a user, which depend on the uenv or container in this shell."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from uenvtool.core.result import Result
from uenvtool.core.session import KUBERNETES, container_name, current_job, in_container, loaded_views
from uenvtool.knowledge.recognise import recognised


def start(environ: Mapping[str, str]) -> Result:
    """Return the uenv or container and the system of this shell, and the commands to run next."""
    known = recognised(environ)
    system = known[0] if known else None
    machine = f"This machine is {system}."
    if system is None:
        machine = "This machine is not a known system (see `uenvtool list systems`)."
    commands = {
        "add packages": f"uenvtool venv .venv PACKAGE{' --uenv IMAGE' if _needs_image(environ) else ''}",
        "write a job": _job(system, environ),
        "check a job": "uenvtool check train.sh",
        "build an image": "uenvtool build pytorch-2.6",
        "all commands": "uenvtool --help",
    }
    rows = [f"  {name:16}{command}" for name, command in commands.items()]
    return Result(text="\n".join([_loaded(environ), machine, *rows]))


def _loaded(environ: Mapping[str, str]) -> str:
    if views := loaded_views(environ):
        return f"The uenv {views[0].uenv} is loaded."
    if in_container(environ):
        name = container_name(environ)
        return f"This is {f'the container {name}' if name else 'a container'}."
    if _has_uenv(environ):
        return "No uenv is loaded."
    return "To install packages, first load the module or start the container that contains your PyTorch."


def _job(system: str | None, environ: Mapping[str, str]) -> str:
    job = current_job(environ)
    is_pod = job is not None and job.scheduler == KUBERNETES
    options = (
        ["--account NAME"] * (not is_pod) + ["--image IMAGE"] * _needs_image(environ) if system else ["--system NAME"]
    )
    return " ".join(["uenvtool job", *options, "-- python train.py"])


def _needs_image(environ: Mapping[str, str]) -> bool:
    return _has_uenv(environ) and not loaded_views(environ) and not in_container(environ)


def _has_uenv(environ: Mapping[str, str]) -> bool:
    return shutil.which("uenv", path=environ.get("PATH")) is not None
