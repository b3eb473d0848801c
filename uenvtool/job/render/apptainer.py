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
        MODULES="".join(f"module {words}\n" for words in _modules(plan)),
        BINDS="\n".join(aligned([(f"  {word}", reason) for word, reason in _binds(plan)])),
        ENV=f" \\\n  {env}" if env else "",
    )
    return {plan.request.file: script}


def _modules(plan: JobPlan) -> list[str]:
    """Return the words of `module` that the job begins with."""
    names = plan.knowledge.apptainer.modules
    return ["reset", *(f"load {bash_word(name)}" for name in names)] if names else []


def _binds(plan: JobPlan) -> Iterator[tuple[str, str]]:
    """What the container sees of the host, with the reason. The copy of a packed overlay is added when it is there."""
    for bind in plan.knowledge.apptainer.binds:
        if bind.host.startswith("$"):
            variable, _, rest = bind.host[2:].partition("}")
            yield f'"${{{variable}:?}}"{bash_word(f"{rest}:{bind.inside}")}', bind.reason
        else:
            yield bash_word(f"{bind.host}:{bind.inside}"), bind.reason
    if plan.overlay is None:
        return
    path = mountable(overlay_path(plan.overlay))
    if not plan.overlay.mount:
        yield bash_word(f"{path}:{path}"), "the Python overlay"
    elif not plan.request.stage:
        yield bash_word(f"{path}:{plan.overlay.mount}:image-src=/"), "the packed Python overlay"
