"""`uenvtool build --sources`: what will be downloaded, and a mirror of it for machines without a network."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.core.errors import ToolMissing
from uenvtool.core.result import Progress, Result, Table
from uenvtool.env.environment import Environment
from uenvtool.env.installable import read_installable
from uenvtool.env.next_steps import build_again, build_image, usual_folder
from uenvtool.env.program import find_spack, how_to_get, repository_folder
from uenvtool.env.request import BuildRequest
from uenvtool.env.sources import make_mirror, sources_of

LOG = ".uenvtool-concretize.log"
HEADINGS = ("package", "sha256 or commit", "url")


def list_sources(environment: Environment, request: BuildRequest, progress: Progress) -> Result:
    """The downloads of a resolved environment; into the mirror as well if the request names one.

    Raises BadInput if the environment is not resolved yet, ToolMissing without Spack, ToolFailed if
    Spack fails.
    """
    folder = request.output or usual_folder(environment)
    resolved = read_installable(folder)
    spack = find_spack(request.spack)
    if spack is None:
        again = build_again(environment, folder)
        raise ToolMissing("Spack is not here", hint=how_to_get(environment.recipe.spack, f"{again} --sources"))
    repos = {name: repository_folder(name, path) for name, path in request.repos.items()}
    with progress("listing sources"):
        sources = sources_of(spack, environment, resolved, repos=repos, log=folder / LOG, compiler=True)
    notes = [f"{len(sources)} sources; what a build fetches by itself is not among them"]
    next_commands = []
    if request.mirror is not None:
        mirror = Path(os.path.abspath(request.mirror))
        with progress(f"downloading into {mirror}") as on_step:
            make_mirror(spack, environment, resolved, mirror, repos=repos, log=folder / LOG, on_step=on_step)
        notes.append(f"the mirror is complete: {mirror}")
        next_commands.append(build_image(folder, "--mirror", f"file://{mirror}", spack=spack, repos=repos))
    return Result(
        data=[
            {"package": source.package, "url": source.url, "sha256": source.sha256, "commit": source.commit}
            for source in sources
        ],
        tables=(
            Table(headings=HEADINGS, rows=[(source.package, source.checked_by, source.url) for source in sources]),
        ),
        warnings=tuple(
            f"{source.package}: Spack checks {source.url} against nothing"
            for source in sources
            if source.checked_by == "nothing"
        ),
        notes=tuple(notes),
        next=tuple(next_commands),
    )
