"""`uenvtool build --sources`: what Spack downloads to install an environment, and a mirror of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.files import scratch_folder
from uenvtool.core.result import Progress, Result, Step, Table
from uenvtool.core.tools import Completed
from uenvtool.core.value import value_class
from uenvtool.env.environment import Environment
from uenvtool.env.explain_failure import explain_failed_install
from uenvtool.env.folder import LOG
from uenvtool.env.installable import Installable, read_installable
from uenvtool.env.next_steps import build_again, build_image
from uenvtool.env.program import Spack, find_spack, repository_folders, spack_is_missing
from uenvtool.env.request import BuildRequest
from uenvtool.env.resolve import machine, node_answers, places, resolving
from uenvtool.env.runner import Runner, answer_of, kept_output, prepared, user_cache

SCRIPT = Path(__file__).parent / "scripts" / "list_sources.py"
HEADINGS = ("package", "sha256 or commit", "url")


@value_class
class Source:
    """A download. package: NAME@VERSION. sha256: of the file; commit: of a git repository; one of both, or none."""

    package: str
    url: str
    sha256: str
    commit: str

    @property
    def checked_by(self) -> str:
        """What Spack holds the download against."""
        return self.sha256 or (f"commit {self.commit}" if self.commit else "nothing")


def list_sources(environment: Environment, folder: Path, request: BuildRequest, progress: Progress) -> Result:
    """Return the downloads of a resolved environment in a folder; into the mirror as well if the request names one.

    Raises BadInput if the environment is not resolved yet, ToolMissing without Spack, ToolFailed if
    Spack fails.
    """
    resolved = read_installable(folder)
    spack = find_spack(request.spack)
    if spack is None:
        again = build_again(environment, folder)
        raise spack_is_missing(environment.recipe.spack, f"{again} --sources")
    repos = repository_folders(request.repos, environment.pins)
    with progress("listing sources"):
        sources = sources_of(spack, environment, resolved, repos=repos, log=folder / LOG, compilers=True)
    notes = [f"{len(sources)} sources; what a build fetches by itself is not among them"]
    next_commands = []
    if request.mirror is not None:
        mirror = Path(os.path.abspath(request.mirror))
        with progress(f"downloading into {mirror}") as on_step:
            run_lister(spack, environment, resolved, mirror, repos=repos, log=folder / LOG, on_step=on_step)
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


def sources_of(
    spack: Spack,
    environment: Environment,
    resolved: Installable,
    *,
    repos: Mapping[str, Path],
    log: Path,
    compilers: bool = False,
) -> list[Source]:
    """Return what Spack downloads on a node to install an environment from source, by package.

    resolved: the environment on disk. compilers: with those of the compilers that are built first, which Spack
    has to resolve for it. What a build fetches by itself is not known to Spack. Raises
    ToolFailed if Spack fails; its output is then in the file `log`.
    """
    ran = run_lister(spack, environment, resolved, repos=repos, log=log, compilers=compilers)
    return list(dict.fromkeys(Source(**row) for completed in ran for row in answer_of(completed)))


def downloaded_bytes(source: Source, mirror: Path | None = None) -> int | None:
    """Return the size of a download that Spack's cache, or a mirror in a folder, has by its sum, else None."""
    for folder in (user_cache() / "downloads", mirror):
        if folder is not None and source.sha256:
            for path in folder.glob(f"_source-cache/archive/{source.sha256[:2]}/{source.sha256}*"):
                return path.stat().st_size
    return None


def run_lister(
    spack: Spack,
    environment: Environment,
    resolved: Installable,
    *mirror: Path,
    repos: Mapping[str, Path],
    log: Path,
    compilers: bool = True,
    mirrors: Sequence[str] = (),
    on_step: Step | None = None,
) -> list[Completed]:
    """Run SCRIPT on the environments that build compilers, once they are resolved as on a node, and on the main one.

    mirror: a folder to download into, for Spack to install from on a node without a network; what it has is kept.
    mirrors: URLs of source mirrors to take from first. Raises ToolFailed if something cannot be fetched; what was
    fetched stays.
    """
    with scratch_folder() as scratch:
        config = {
            **places(environment, scratch),
            "build_stage": [os.fspath(scratch / "stage")],
            "source_cache": os.fspath(user_cache() / "downloads"),
        }
        sources = {f"source{index}": url for index, url in enumerate(mirrors)}
        texts = resolved.staged_texts(False, repos)
        runner = prepared(spack, texts, {"config": config, "mirrors": sources}, scratch)
        first = [replace(runner, folder=runner.folder / name) for name in resolved.compilers] if compilers else []
        for one in first:
            _run(one, resolving(spack, node_answers(environment), scratch), log)
        return [_run(one, [SCRIPT, machine(environment), *mirror], log, on_step) for one in (*first, runner)]


def _run(runner: Runner, words: Sequence[str | Path], log: Path, on_step: Step | None = None) -> Completed:
    """Run a script in Spack's Python. Raises ToolFailed if it fails; its output is then in the file `log`."""
    completed = runner.run("python", *words, on_step=on_step)
    if completed.code != 0:
        output = kept_output(completed, log, str(runner.folder), "ENVIRONMENT")
        raise explain_failed_install(runner.spack, code=completed.code, output=output, log=log)
    return completed
