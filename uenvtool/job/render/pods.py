"""The files of a job in pods: what each pod runs, the line that submits them, the manifest for Kubeflow; pure."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.lines import bash_word, bash_words, beside, in_comment, yaml_mapping
from uenvtool.job.plan import JobPlan, torchrun_words
from uenvtool.job.render.batch import path_line
from uenvtool.job.render.templates import template


def pod_files(plan: JobPlan, activation: str) -> dict[str, str]:
    """The files by their names, the pod's script first. activation: the script that sets a pod up."""
    file = plan.request.file
    activate, submit, manifest = (beside(file, suffix) for suffix in (".activate.sh", ".submit.sh", ".yaml"))
    known = plan.knowledge.runai
    pairs = [("--annotation", pair) for pair in known.annotations.items()]
    pairs += [("--extended-resource", pair) for pair in known.resources.items()]
    flags = " ".join(f"{option} {bash_word('='.join(pair))}" for option, pair in pairs)
    common = {"PODS": str(plan.nodes), "RANKS": str(plan.ranks), "AGAIN": in_comment(plan.request.again)}
    script = filled(
        template("runai.sh"),
        **common,
        COMMAND=bash_words(torchrun_words(plan.request.command)),
        SUBMIT=f"sh {in_comment(shlex.quote(submit))}",
        ACTIVATION=PurePath(activate).name,
        FLAGS=flags.replace('"', ""),
        FOLDER="logs",
        INSIDE=path_line(plan),
    )
    line = filled(
        template("runai-submit.sh"),
        **common,
        NAME=bash_word(_pod_name(plan)),
        WORKERS=str(plan.nodes - 1),
        IMAGE=bash_word(plan.image),
        FLAGS=flags,
        SCRIPT=bash_word(file),
    )
    kubeflow = filled(
        template("pytorchjob.yaml"),
        AGAIN=common["AGAIN"],
        RANKS=common["RANKS"],
        FILE=in_comment(shlex.quote(manifest)),
        NAME=quoting.toml(_pod_name(plan)),
        IMAGE=quoting.toml(plan.image),
        SCRIPT=quoting.toml(file.replace("$(", "$$(")),
        ANNOTATIONS=yaml_mapping(known.annotations),
        LIMITS=yaml_mapping({"nvidia.com/gpu": str(plan.ranks), **known.resources}),
        WORKER=_workers(plan.nodes - 1),
    )
    return {file: script, activate: activation, submit: line, manifest: kubeflow}


def _pod_name(plan: JobPlan) -> str:
    """A name as Kubernetes takes it (RFC 1123)."""
    return re.sub(r"[^a-z0-9-]+", "-", plan.name.lower()).strip("-")[:50].strip("-") or "job"


def _workers(count: int) -> str:
    """The pods beside the master, if there are any."""
    if count == 0:
        return ""
    return f"    Worker:\n      replicas: {count}\n      restartPolicy: Never\n      template: *pod"
