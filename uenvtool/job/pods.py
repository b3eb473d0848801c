"""Writes the files of a job in pods: its script, the runai submission script and a manifest; pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from uenvtool.check.launchers import TORCHRUN, launcher_named
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.words import counted
from uenvtool.job.plan import JobPlan
from uenvtool.job.record import record
from uenvtool.job.shell import bash_words, launcher_line, overlay_lines, sibling, template

SUBMIT = ".submit.sh"
"""The suffix of the script that submits pods."""
POOL_LABEL = "runai/node-pool"
"""The label that tells the Run:ai scheduler the pool of a pod (NVIDIA/KAI-Scheduler, pkg/common/constants)."""
POD_FOLDER = "/tmp/job"  # the directory in the pod that contains the scripts of a job


def pod_files(plan: JobPlan) -> dict[str, str]:
    """Return the texts of the files by name; the script of the pod is first."""
    file = plan.request.file
    activate, submit, manifest = (sibling(file, suffix) for suffix in (".activate.sh", SUBMIT, ".yaml"))
    again = quoting.comment(plan.again)
    script = filled(
        template("pod.sh"),
        PODS=f"{counted(plan.nodes, 'pod')} with {counted(plan.ranks, 'GPU')} per pod",
        RANKS=str(plan.ranks),
        AGAIN=again,
        COMMAND=bash_words(plan.command.words),
        SUBMIT=f"sh {quoting.comment(quoting.sh_word(submit))}",
        ACTIVATION=PurePath(activate).name,
        NO_DEVICE=quoting.sh(_no_device(plan)),
        INSIDE="".join(f"{line}\n" for line in overlay_lines(plan)),
        RECORD=record(plan, "$NNODES pods"),
        PROGRAM=_pod_program(plan),
    )
    line = filled(
        template("runai-submit.sh"),
        AGAIN=again,
        PODS=counted(plan.nodes, "pod"),
        SECRETS=_secrets(plan),
        SUBMIT=_submit_words(plan),
        FLAGS=_flags(plan),
        SCRIPT=quoting.sh_word(PurePath(file).name),
        ACTIVATION=quoting.sh_word(PurePath(activate).name),
    )
    scripts = {PurePath(file).name: script, PurePath(activate).name: plan.activation}
    return {file: script, activate: plan.activation, submit: line, manifest: _manifest(plan, manifest, scripts)}


def _pod_program(plan: JobPlan) -> str:
    launcher = launcher_named(plan.command.launcher)
    program = launcher_line(plan, '"$GPUS"').replace(' --rdzv-id="$SLURM_JOB_ID"', "")
    once = "--max-restarts=0 " if plan.command.launcher == TORCHRUN else ""
    return f"{program}{once}\\\n  {launcher.logs} " if launcher and launcher.logs else program


def _no_device(plan: JobPlan) -> str:
    flags = _network_flags(plan)
    if flags:
        return f"no RoCE device in this pod: submit with {flags}"
    fields = f"jobs.runtimes.{plan.runtime.name}.annotations and resources"
    return f"no RoCE device in this pod: add {fields} to the file of the system {plan.system}"


def _network_flags(plan: JobPlan) -> str:
    known = plan.knowledge
    pairs = [("--annotation", entry.name, entry.value) for entry in known.annotations]
    pairs += [("--extended-resource", name, value) for name, value in known.resources.items()]
    return " ".join(f"{option} {quoting.sh_word(f'{name}={value}')}" for option, name, value in pairs)


def _submit_words(plan: JobPlan) -> str:
    common = f"-g {plan.ranks} -i {quoting.sh_word(plan.image)} --large-shm"
    if plan.request.interactive:
        return f"submit {quoting.sh_word(_pod_name(plan))} --interactive {common}"
    return f"submit-dist pytorch --name {quoting.sh_word(_pod_name(plan))} --workers={plan.nodes - 1} {common}"


def _flags(plan: JobPlan) -> str:
    request = plan.request
    user, _, group = request.uid.partition(":")
    storage = [claim.partition(":") for claim in request.pvc]
    pool = plan.knowledge.pools.get(request.node_type)
    words = [
        *(["--node-pools", request.node_type] if request.node_type else []),
        *(pool.interactive if pool and request.interactive else ()),
        *(["-p", request.project] if request.project else []),
        *(["--run-as-uid", user] if user else []),
        *(["--run-as-gid", group] if group else []),
        *(word for name, _, path in storage for word in ("--existing-pvc", f"claimname={name},path={path}")),
        *(word for name, value in request.variables.items() for word in ("-e", f"{name}={value}")),
        *(word for name in request.passed for word in ("-e", f"{name}=SECRET:{_secret(name)['name']},{name}")),
        *(["--working-dir", request.workdir] if request.workdir else []),
    ]
    return " ".join(filter(None, [_network_flags(plan), bash_words(words)]))


def _secret(variable: str) -> dict[str, str]:
    return {"name": f"env-{variable.lower().replace('_', '-')}".rstrip("-"), "key": variable}


def _secrets(plan: JobPlan) -> str:
    # The commands use a pipe, because other users can see the arguments of a process.
    project = f" -n runai-{plan.request.project}" if plan.request.project else ""
    return "".join(
        f"# No file contains {name}. It is read from the secret {_secret(name)['name']}, which you create once:\n"
        f'#   printf %s "${name}" | kubectl create secret generic {_secret(name)["name"]}{project}'
        f" --from-file={name}=/dev/stdin\n"
        for name in plan.request.passed
    )


def _manifest(plan: JobPlan, name: str, scripts: dict[str, str]) -> str:
    request = plan.request
    user, _, group = request.uid.partition(":")
    context = {"runAsUser": user, **({"runAsGroup": group} if group else {})} if user else {}
    storage = [claim.partition(":") for claim in request.pvc]
    container_fields = "".join(
        [
            f"            workingDir: {quoting.toml(request.workdir)}\n" if request.workdir else "",
            "            env:\n" if request.env else "",
            *(
                f"            - {{name: {key}, value: {quoting.toml(value.replace('$(', '$$('))}}}\n"
                for key, value in request.variables.items()
            ),
            *(
                f"            - {{name: {key}, valueFrom: {{secretKeyRef: {_yaml_mapping(_secret(key))}}}}}\n"
                for key in request.passed
            ),
        ]
    )
    return filled(
        template("pytorchjob.yaml"),
        AGAIN=quoting.comment(plan.again),
        SECRETS=_secrets(plan),
        RANKS=str(plan.ranks),
        FILE=quoting.comment(quoting.sh_word(name)),
        NAME=quoting.toml(_pod_name(plan)),
        IMAGE=quoting.toml(plan.image),
        SCRIPTS="\n".join(_literal(key, text) for key, text in scripts.items()),
        SCRIPT=quoting.toml(f"{POD_FOLDER}/{PurePath(request.file).name}".replace("$(", "$$(")),
        POOL=f"\n          labels: {_yaml_mapping({POOL_LABEL: request.node_type})}" if request.node_type else "",
        ANNOTATIONS=_yaml_mapping({entry.name: entry.value for entry in plan.knowledge.annotations}),
        LIMITS=_yaml_mapping({"nvidia.com/gpu": str(plan.ranks), **plan.knowledge.resources}),
        CONTAINER=container_fields,
        MOUNTS="".join(
            f"            - {{name: storage-{index}, mountPath: {quoting.toml(path)}}}\n"
            for index, (_, _, path) in enumerate(storage)
        ),
        USER=f"          securityContext: {{{', '.join(f'{key}: {value}' for key, value in context.items())}}}\n"
        if user
        else "",
        VOLUMES="".join(
            f"          - {{name: storage-{index}, persistentVolumeClaim: {{claimName: {quoting.toml(claim)}}}}}\n"
            for index, (claim, _, _) in enumerate(storage)
        ),
        WORKER=f"    Worker:\n      replicas: {plan.nodes - 1}\n      restartPolicy: Never\n      template: *pod\n"
        if plan.nodes > 1
        else "",
    )


def _yaml_mapping(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {quoting.toml(value)}" for name, value in values.items()) + "}"


def _literal(name: str, text: str) -> str:
    if all(line.isprintable() for line in text.split("\n")):
        lines = "".join(f"    {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
        return f"  {quoting.toml(name)}: |\n{lines}".rstrip("\n")
    return f"  {quoting.toml(name)}: {quoting.toml(text)}"


def _pod_name(plan: JobPlan) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", plan.name.lower()).strip("-")[:50].strip("-") or "job"  # RFC 1123
