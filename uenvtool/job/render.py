"""The files of a job: each a template in its own language, filled with a plan; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from uenvtool import quoting
from uenvtool.errors import BadInput
from uenvtool.filling import filled
from uenvtool.job.plan import (
    APPTAINER,
    CE,
    LOCAL,
    RUNAI,
    UENV,
    JobPlan,
    overlay_path,
    run_command,
    torchrun_words,
    uenv_images,
    uenv_views,
)
from uenvtool.job.request import TORCHRUN
from uenvtool.model.jobs import Explained
from uenvtool.model.tuning import REQUIRED, UNSET, Setting

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_LINE = 118
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ^_./:,+=%-]*")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,+=@%-]+")
_MEMORY = "/dev/shm"  # noqa: S108  a folder of the compute node, named in the job
_ON_NODE = _MEMORY + "/$SLURM_JOB_ID-{index}{suffix}"
OVERLAY_MOUNT_FORBIDDEN = re.compile(r"[:,$\n]")


def render_job(plan: JobPlan, activation: str = "") -> dict[str, str]:
    """The files of a job by their names, the one to submit first.

    activation: the script that sets a pod up, for Run:ai. Raises BadInput for a text that a file cannot hold.
    """
    return RENDERERS[plan.runtime](plan, activation)


def _uenv(plan: JobPlan, _activation: str) -> dict[str, str]:
    options = ""
    if plan.request.stage:
        paths = ",".join(_staged_path(i, image) for i, image in enumerate(uenv_images(plan)))
        options = f' \\\n  --uenv="{paths}" --view={_sh(uenv_views(plan))}'
    values = {**_slurm(plan, options), "SETTINGS": _exports(plan)}
    return {plan.request.file: filled(_template("uenv.sh"), **values)}


def _container_engine(plan: JobPlan, _activation: str) -> dict[str, str]:
    edf = _beside(plan.request.file, ".toml")
    options = "".join(f" {option}" for option in plan.knowledge.ce.extended_srun) if plan.extended else ""
    shown = _sh(edf if "/" in edf else f"./{edf}")
    values = {**_slurm(plan, options), "EDF": shown}
    return {plan.request.file: filled(_template("ce.sh"), **values), edf: _edf(plan)}


def _edf(plan: JobPlan) -> str:
    """The environment definition file: image, mounts, hook and variables."""
    known = plan.knowledge.ce
    mounts = [f"  {quoting.toml(mount)}," for mount in known.mounts]
    if plan.overlay and plan.overlay.mount:
        image = _checked_mount(overlay_path(plan.overlay))
        source = _braced(_staged_path(1, image)) if plan.request.stage else _from_submit_folder(image)
        mounts.append(f"  {quoting.toml(f'{source}:{plan.overlay.mount}:sqsh')}, # the packed Python overlay")
    elif plan.overlay:
        mounts.append(f"  {quoting.toml(_from_submit_folder(plan.overlay.path))},")
    annotations = known.extended_annotations if plan.extended else known.annotations
    env = [*_edf_lines([*(known.extended_env if plan.extended else ()), *_threads(plan)])]
    env += [f"{each.name} = {_edf_value(each)} # {_reason(each)}" for each in plan.settings]
    image = _braced(_staged_path(0, plan.image)) if plan.request.stage else plan.image
    return filled(
        _template("ce.toml"),
        AGAIN=_comment(plan.request.again),
        IMAGE=quoting.toml(image),
        MOUNTS="\n".join(mounts),
        WORKDIR=quoting.toml(known.workdir or "${PWD}"),
        ENTRYPOINT="entrypoint = true # sets the image's network stack up\n" if plan.extended else "",
        ANNOTATIONS="\n".join(_edf_lines(annotations)),
        ENV="\n".join(env),
    )


def _apptainer(plan: JobPlan, _activation: str) -> dict[str, str]:
    known = plan.knowledge.apptainer
    binds = [(f"{bind.host}:{bind.inside}", bind.reason) for bind in known.binds]
    if plan.overlay and plan.overlay.mount:
        path = _checked_mount(plan.overlay.path)
        binds.append((f"{path}:{plan.overlay.mount}:image-src=/", "the packed Python overlay"))
    elif plan.overlay:
        path = _checked_mount(plan.overlay.path)
        binds.append((f"{path}:{path}", "the Python overlay"))
    env = "".join(f" --env {name}={_sh(value)}" for name, value in known.env.items())
    staged = f'"{_staged_path(0, plan.image)}"' if plan.request.stage else ""
    monitor = filled(_template("monitor.sh"), MONITOR=known.monitor, FOLDER=_folder(plan)) if known.monitor else ""
    values = {
        **_slurm(plan, ""),
        "SETTINGS": _exports(plan),
        "IMAGE": _sh(plan.image),
        "BINDS": "\n".join(_aligned([(f"  {_sh(words)}", reason) for words, reason in binds])),
        "ENV": f" \\\n {env} \\\n " if env else "",
        "MONITOR": monitor,
    }
    if staged:
        values["STAGE"] = f'sbcast --force "$image" {staged} # each node reads its own copy\nimage={staged}\n'
    return {plan.request.file: filled(_template("apptainer.sh"), **values)}


def _local(plan: JobPlan, _activation: str) -> dict[str, str]:
    text = filled(
        _template("local.sh"),
        RANKS=str(plan.ranks),
        COMMAND=_words(torchrun_words(plan.request.command)),
        AGAIN=_comment(plan.request.again),
        INSIDE=_path_line(plan, ""),
    )
    return {plan.request.file: text}


def _pods(plan: JobPlan, activation: str) -> dict[str, str]:
    """The script that each pod runs, the line that submits the pods, and the manifest for Kubeflow."""
    file = plan.request.file
    activate, submit, manifest = (_beside(file, suffix) for suffix in (".activate.sh", ".submit.sh", ".yaml"))
    known = plan.knowledge.pods
    flags = " ".join(
        [*(f"--annotation {_sh(f'{name}={value}')}" for name, value in known.annotations.items()),
         *(f"--extended-resource {_sh(f'{name}={value}')}" for name, value in known.resources.items())]
    )  # fmt: skip
    common = {"PODS": str(plan.nodes), "RANKS": str(plan.ranks), "AGAIN": _comment(plan.request.again)}
    script = filled(
        _template("runai.sh"),
        **common,
        COMMAND=_words(torchrun_words(plan.request.command)),
        SUBMIT=f"sh {_comment(shlex.quote(submit))}",
        ACTIVATION=PurePath(activate).name,
        FLAGS=flags.replace('"', ""),
        FOLDER="logs",
        INSIDE=_path_line(plan, ""),
    )
    line = filled(
        _template("runai-submit.sh"),
        **common,
        NAME=_sh(_pod_name(plan)),
        WORKERS=str(plan.nodes - 1),
        IMAGE=_sh(plan.image),
        FLAGS=flags,
        SCRIPT=_sh(file),
    )
    kubeflow = filled(
        _template("pytorchjob.yaml"),
        AGAIN=common["AGAIN"],
        RANKS=common["RANKS"],
        FILE=_comment(shlex.quote(manifest)),
        NAME=quoting.toml(_pod_name(plan)),
        IMAGE=quoting.toml(plan.image),
        SCRIPT=quoting.toml(file.replace("$(", "$$(")),
        ANNOTATIONS=_flow(known.annotations),
        LIMITS=_flow({"nvidia.com/gpu": str(plan.ranks), **known.resources}),
        WORKER=_workers(plan.nodes - 1),
    )
    return {file: script, activate: activation, submit: line, manifest: kubeflow}


Renderer = Callable[[JobPlan, str], dict[str, str]]
RENDERERS: dict[str, Renderer] = {
    UENV: _uenv,
    CE: _container_engine,
    APPTAINER: _apptainer,
    RUNAI: _pods,
    LOCAL: _local,
}


def _slurm(plan: JobPlan, options: str) -> dict[str, str]:
    """What the batch scripts of all runtimes share."""
    torchrun = plan.launcher == TORCHRUN
    command = run_command(plan.request)
    launch = filled(_template("launch-torchrun.sh"), RANKS=str(plan.ranks)) if torchrun else _template("launch-srun.sh")
    requeue = plan.request.requeue
    return {
        "DIRECTIVES": "\n".join(
            _aligned([(_directive(each), each.reason) for each in plan.directives], plan.request.options)
        ),
        "COMMAND": _words(torchrun_words(command) if torchrun else command),
        "AGAIN": _comment(plan.request.again),
        "FOLDER": _folder(plan),
        "OUTPUT": _sh(plan.output),
        "BIND": "none" if torchrun else "sockets",
        "OPTIONS": options,
        "INSIDE": _inside(plan),
        "LAUNCH": launch.removesuffix("\n"),
        "LAUNCHER": "torchrun" if torchrun else "rank",
        "STAGE": _stage(plan),
        "BEFORE": "trap 'again=1; kill -USR1 \"$step\"' USR1 # two minutes before the limit\n" if requeue else "",
        "AFTER": _template("requeue.sh").removesuffix("\n") if requeue else "",
    }


def _stage(plan: JobPlan) -> str:
    """The lines that give each node its own copy of the images, in its memory."""
    if not plan.request.stage or plan.runtime == APPTAINER:
        return ""
    overlay = plan.overlay
    images = [plan.image, *([overlay_path(overlay)] if overlay and overlay.mount else [])]
    lines = ["# Each node mounts its own copy of the images, in memory."]
    copies = []
    for i, image in enumerate(images):
        if not image.startswith(("/", ".", "$")):
            if plan.runtime == CE:
                raise BadInput(f"--stage: {image} is no file", hint="import it with enroot, and name the .sqsh file")
            source = f"\"$(uenv image inspect --format='{{sqfs}}' {_sh(image)})\""
        else:
            source = _sh(image)
        copies.append(f'"{_staged_path(i, image)}"')
        lines.append(f"sbcast --force {source} {copies[-1]}")
    nodes = '-N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --overlap'
    lines.append(f"trap 'srun {nodes} rm -f {' '.join(copies)}' EXIT")
    return "\n".join(lines) + "\n"


def _staged_path(index: int, image: str) -> str:
    suffix = PurePath(image).suffix if image.startswith(("/", ".", "$")) else ""
    return _ON_NODE.format(index=index, suffix=suffix if re.fullmatch(r"\.\w+", suffix) else ".squashfs")


def _inside(plan: JobPlan) -> str:
    """The lines of a step before its ranks start, within single quotes."""
    lines = []
    if plan.runtime == APPTAINER:
        known = plan.knowledge.apptainer
        for name, folders in (("LD_LIBRARY_PATH", known.library_path), ("CPATH", known.include_path)):
            if folders:
                lines.append(f"  export {name}={':'.join(folders)}:${name}\n")
    if plan.runtime != UENV or not (plan.overlay and plan.overlay.mount):
        lines.append(_path_line(plan, "  "))
    if plan.request.requeue and plan.launcher == TORCHRUN:
        lines.append('  trap "" USR1 # torchrun itself ignores the signal; the ranks get it too\n')
    return "".join(lines)


def _path_line(plan: JobPlan, indent: str) -> str:
    """The line that puts an overlay's programs first; none without an overlay."""
    if plan.overlay is None:
        return ""
    folder = plan.overlay.bin
    if not _PLAIN_WORD.fullmatch(folder):
        raise BadInput(
            f"the overlay's path {folder!r} cannot stand in a job", hint="letters, digits and _ . / - only: move it"
        )
    return f"{indent}export PATH={folder}:$PATH # python and torchrun of the overlay\n"


def _exports(plan: JobPlan) -> str:
    """The variables of a job, a line each, with the reason."""
    rows = [(f'export {each.name}="${{{each.name}-{each.value}}}"', each.reason) for each in _threads(plan)]
    rows += [(_export(each), _reason(each)) for each in plan.settings]
    if not rows:
        return ""
    head = "# A value that is set before sbatch stays, but for those without a `-`. `uenvtool explain NAME` says more."
    return "\n".join([head, *_aligned(rows)]) + "\n\n"


def _export(setting: Setting) -> str:
    if setting.policy == UNSET or setting.value is None:
        return f"unset {setting.name}"
    if setting.policy == REQUIRED:
        return f"export {setting.name}={_sh(setting.value)}"
    if not _PLAIN_VALUE.fullmatch(setting.value):
        return f'[ -n "${{{setting.name}+x}}" ] || export {setting.name}={_sh(setting.value)}'
    return f'export {setting.name}="${{{setting.name}-{setting.value}}}"'


def _threads(plan: JobPlan) -> list[Explained]:
    cores = plan.cores * plan.tasks // plan.ranks if plan.cores else 0
    return (
        [Explained("OMP_NUM_THREADS", str(cores), "the cores of a rank; fewer if data loaders fork")] if cores else []
    )


def _reason(setting: Setting) -> str:
    """Why a variable is set, its first clause, and who says so."""
    return f"{setting.reason.split('; ')[0]} [{setting.source.name}]"


def _edf_lines(values: Sequence[Explained]) -> list[str]:
    return [
        f"{each.name} = {quoting.toml(each.value)}" + (f" # {each.reason}" if each.reason else "") for each in values
    ]


def _edf_value(setting: Setting) -> str:
    """A variable in an EDF; an empty text unsets it there."""
    if setting.policy == UNSET or setting.value is None:
        return '""'
    if "${" in setting.value:
        raise BadInput(f"the Container Engine would expand the value of {setting.name}", hint="take another value")
    return quoting.toml(setting.value)


def _directive(each: Explained) -> str:
    return f"#SBATCH --{each.name}={_option_value(each.value)}" if each.value else f"#SBATCH --{each.name}"


def _option_value(value: str) -> str:
    """A value in an #SBATCH line, which sbatch splits as a shell does, without expanding it."""
    if re.fullmatch(r"[^\s\"'\\#]+", value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _aligned(rows: Sequence[tuple[str, str]], more: Sequence[str] = ()) -> Iterator[str]:
    """Texts with their reasons as comments, in one column as far as the lines allow it."""
    width = max((len(text) for text, reason in rows if reason and len(text) <= 50), default=0)
    for text, reason in rows:
        yield _commented(text.ljust(width), reason) if reason else text
    for option in more:
        yield option if option.startswith("#SBATCH ") else f"#SBATCH {option}"


def _commented(text: str, reason: str) -> str:
    """A line with as much of the reason as fits: whole, without its source, or its first clauses."""
    clauses = re.sub(r" \[[^]]*\]$", "", reason)
    for shown in (reason, clauses, clauses.rsplit(", ", 1)[0], clauses.split(", ")[0]):
        if len(text) + len(shown) + 3 <= LONGEST_LINE:
            return f"{text} # {shown}"
    return f"{text} # {clauses}"[: LONGEST_LINE - 4].rsplit(" ", 1)[0] + " ..."


def _words(words: Sequence[str]) -> str:
    return " ".join(_sh(word) for word in words)


def _sh(text: str) -> str:
    """A word of bash; quotes only if it needs them."""
    return text if _PLAIN_WORD.fullmatch(text) else quoting.sh(text)


def _comment(text: str) -> str:
    """A text within one comment line."""
    return re.sub(r"[\r\n]+", " ", text)


def _folder(plan: JobPlan) -> str:
    return _sh(str(PurePath(plan.output).parent))


def _beside(file: str, suffix: str) -> str:
    """A file's name beside the job's."""
    path = PurePath(file)
    return str(path.with_name(path.name.removesuffix(".sh") + suffix))


def _checked_mount(path: str) -> str:
    if OVERLAY_MOUNT_FORBIDDEN.search(path):
        raise BadInput(f"{path!r} cannot be mounted: the path has one of : , $", hint="move the image")
    return path


def _from_submit_folder(path: str) -> str:
    """A path as an EDF names it: one that is relative lies below the folder where sbatch was called."""
    return path if path.startswith(("/", "$")) else "${PWD}/" + path.removeprefix("./")


def _braced(path: str) -> str:
    return path.replace("$SLURM_JOB_ID", "${SLURM_JOB_ID}")


def _pod_name(plan: JobPlan) -> str:
    """A name as Kubernetes takes it (RFC 1123)."""
    return re.sub(r"[^a-z0-9-]+", "-", plan.name.lower()).strip("-")[:50].strip("-") or "job"


def _flow(values: dict[str, str] | object) -> str:
    pairs = dict(values) if isinstance(values, dict) else {}
    return "{" + ", ".join(f"{name}: {quoting.toml(value)}" for name, value in pairs.items()) + "}"


def _workers(count: int) -> str:
    if count == 0:
        return ""
    return f"    Worker:\n      replicas: {count}\n      restartPolicy: Never\n      template: *pod"


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
