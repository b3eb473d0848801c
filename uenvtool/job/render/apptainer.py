"""The batch script of a job with Apptainer; pure."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.lines import aligned, bash_word, mountable
from uenvtool.job.plan import JobPlan, overlay_path
from uenvtool.job.render.batch import batch_script
from uenvtool.job.render.settings import exports


def apptainer_files(plan: JobPlan) -> dict[str, str]:
    """The batch script by its name."""
    known = plan.knowledge.apptainer
    env = " ".join(f"--env {name}={bash_word(value)}" for name, value in known.env.items())
    script = batch_script(
        plan,
        "apptainer.sh",
        monitor=known.monitor,
        SETTINGS=exports(plan),
        IMAGE=bash_word(plan.image),
        BINDS="\n".join(aligned([(f"  {bash_word(words)}", reason) for words, reason in _binds(plan)])),
        ENV=f" \\\n  {env}" if env else "",
    )
    return {plan.request.file: script}


def _binds(plan: JobPlan) -> Iterator[tuple[str, str]]:
    """What the container sees of the host, with the reason. The copy of a packed overlay is added when it is there."""
    for bind in plan.knowledge.apptainer.binds:
        yield f"{bind.host}:{bind.inside}", bind.reason
    if plan.overlay is None:
        return
    path = mountable(overlay_path(plan.overlay))
    if not plan.overlay.mount:
        yield f"{path}:{path}", "the Python overlay"
    elif not plan.request.stage:
        yield f"{path}:{plan.overlay.mount}:image-src=/", "the packed Python overlay"
