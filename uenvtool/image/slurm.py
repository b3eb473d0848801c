"""Builds an image as a Slurm job: the nodes install into one store, each the next package that no other builds."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from uenvtool.core import files, quoting, tools
from uenvtool.core.errors import ToolFailed
from uenvtool.core.filling import filled
from uenvtool.core.lines import aligned, bash_words
from uenvtool.core.options import given
from uenvtool.core.result import Progress, Result, silent
from uenvtool.core.submit import output_or_raise, require_sbatch, submitted
from uenvtool.env.install import JOB, WORK, has_locks, write_locks
from uenvtool.image.build import ImagePlan, begun
from uenvtool.image.request import ImageRequest
from uenvtool.image.site import as_url, push_target

TEMPLATE = Path(__file__).parent / "build-job.sh"
SHARE = 'srun --kill-on-bad-exit=0 --no-kill --label --cpu-bind=none "${build[@]}" --install-only\n'
"""Every node installs what it can; one that fails or dies does not end the others."""
OUTPUT = "slurm-%j.out"


def build_on_slurm(request: ImageRequest, progress: Progress = silent) -> Result:
    """Submit a job that builds an image; its number is the answer, or the image if the job was waited for.

    The environments are resolved here, first. The store and the folders of Spack have to be the same on
    every node. Raises as `build_image` does, ToolMissing without sbatch, ToolFailed if Slurm does not
    take the job, or if it was waited for and failed.
    """
    require_sbatch()
    plan, cached, warnings = begun(request, progress)
    if cached:
        return cached
    work, text = plan.store / WORK, job_script(request, plan)
    script = work / "build.sh"
    with files.locked(plan.store, shared=has_locks(plan.environments, plan.store)):  # others are taken from nobody
        write_locks(plan.environments, plan.store)
        files.write(script, text)

    def keep(line: str) -> None:
        printed = line.strip().split(";")[0]
        if printed.isdecimal():
            files.write(work / JOB, json.dumps({"job": printed, "image": str(plan.target)}) + "\n")

    notes: tuple[str, ...] = ()
    if request.wait:
        with progress("waiting for the job"):
            number = _waited_for(script, keep)
        follow = f"uenvtool image verify {shlex.quote(str(plan.target))}"
    else:
        number = submitted(["sbatch", "--parsable"], script, program="sbatch", cwd=work)
        keep(number)
        follow = f"uenvtool image status {shlex.quote(str(plan.store))}"
        notes = (f"the job writes to {work / OUTPUT.replace('%j', number)}",)
    data = {"image": str(plan.target), "store": str(plan.store), "script": str(script), "job": number}
    text = str(plan.target) if request.wait else number
    return Result(data=data, text=text, warnings=warnings, notes=notes, next=(follow,))


def job_script(request: ImageRequest, plan: ImagePlan) -> str:
    """Return the text of the batch script."""
    again = ["uenvtool", "image", "build", *given(request)]
    return filled(
        TEMPLATE.read_text(encoding="utf-8"),
        DIRECTIVES="\n".join(aligned(list(_directives(request, plan)))),
        AGAIN=quoting.comment(shlex.join(again)),
        BUILD=bash_words([sys.executable, "-m", "uenvtool", *_build_words(plan)]),
        SHARE=SHARE if request.nodes > 1 else "",
    )


def _directives(request: ImageRequest, plan: ImagePlan) -> Iterator[tuple[str, str]]:
    options = {
        "job-name": f"image-{plan.target.stem}",
        "nodes": str(request.nodes),
        "partition": request.partition,
        "account": request.account,
        "time": request.time,
    }
    for name, value in options.items():
        if value:
            yield f"#SBATCH --{name}={quoting.sbatch(name, value)}", ""
    yield "#SBATCH --ntasks-per-node=1", "one Spack a node; it builds with all cores"
    yield "#SBATCH --exclusive", ""
    yield "#SBATCH --no-kill", "the other nodes go on without one that dies"
    yield "#SBATCH --requeue", "if the first node dies"
    yield f"#SBATCH --output={OUTPUT}", "in the folder of this script"


def _build_words(plan: ImagePlan) -> Iterator[str]:
    """Return the command of a node: the same build, with nothing left to decide."""
    request = plan.request
    on_a_node = ImageRequest(
        sources=tuple(os.fspath(one.folder.resolve()) for one in plan.environments),
        output=os.fspath(plan.target),
        site=plan.site.path,
        store=plan.store,
        spack=plan.spack.program.absolute(),
        repo=tuple(f"{name}={path.absolute()}" for name, path in request.repos.items()),
        jobs=request.jobs,
        mirror=tuple(map(as_url, request.mirror)),
        cache=tuple(map(as_url, request.cache)),
        unsigned=request.unsigned,
        push=push_target(request, plan.site),
        post_install=request.post_install.absolute() if request.post_install else None,
        meta=tuple(file.absolute() for file in request.meta),
        tag="hash" if plan.push_caches else None,
        push_image=tuple(cache.shown for cache in plan.push_caches),
    )
    yield from ("image", "build", *given(on_a_node))


def _waited_for(script: Path, on_number: Callable[[str], None]) -> str:
    """Submit a job and wait until it has ended; gives its number, which `on_number` takes when the job begins to wait.

    Raises ToolFailed if Slurm does not take the job or, with the end of its output, if it failed.
    """
    done = tools.run(["sbatch", "--parsable", "--wait", script], cwd=script.parent, on_line=on_number)
    number = done.stdout.strip().split(";")[0]
    if done.code != 0 and number:
        log = script.parent / OUTPUT.replace("%j", number)
        lines = "".join(f"\n  {line}" for line in files.last_lines(log))
        raise ToolFailed(f"job {number} failed{lines}", hint=f"its whole output: {log}\nsubmit it again to go on")
    return output_or_raise(done, script, program="sbatch")
