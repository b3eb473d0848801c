"""Every field of a system that jobs are made of: hostile text in it is refused, or stays text in all that is written.

The files are read by the programs that they are for: scripts by bash, with stand-ins for what is not here.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml

from tests.support.programs import program
from tests.support.samples import WHOLE
from uenvtool.core.errors import BadInput
from uenvtool.job.make import planned
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.load import load_extended
from uenvtool.knowledge.locate import locate

RUN = "touch ran"
HOSTILE = [f"$({RUN})", f"`{RUN}`", f"; {RUN}; ", f"\n{RUN}\n", f"'; {RUN}; '", f'"; {RUN}; "', f" & {RUN} # "]
HOSTILE += [f"\n#SBATCH --wrap={RUN}\n", f"'$({RUN})'", f'"$({RUN})"', f"\\\n{RUN}\n"]
MEANT = ("monitor",)
"""The fields that are shell; the schema says so."""
CASES = [("clariden", "uenv"), ("clariden", "ce"), ("olivia", "apptainer"), ("rcp", "runai")]
SLURM = ("JOB_ID", "JOB_NUM_NODES", "NNODES", "CPUS_PER_TASK", "PROCID", "LOCALID", "NODEID", "NTASKS", "GPUS_ON_NODE")
MODULES = ("EBROOTLIBFABRIC", "EBROOTNCCL", "EBROOTAWSMINOFIMINNCCL")
INSIDE = 'while [ $# -gt 0 ]; do case "$1" in bash|sh|apptainer) exec "$@";; esac; shift; done\n'
PROGRAMS = dict.fromkeys(("srun", "apptainer"), INSIDE) | dict.fromkeys(
    ("scontrol", "module", "python", "torchrun", "runai", "sbcast", "nvidia-smi"), ""
)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all texts and of all names of what is in a tree."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, key, None)  # the name itself
            yield from leaves(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    elif isinstance(data, str):
        yield path


def changed(tree: Any, path: tuple[Any, ...], words: str) -> Any:
    """A tree with words behind the text at a path, or behind a name."""
    tree = copy.deepcopy(tree)
    *way, last = path
    holder = tree
    for step in way[:-1] if last is None else way:
        holder = holder[step]
    if last is None:
        holder[way[-1] + words] = holder.pop(way[-1])
    else:
        holder[last] += words
    return tree


@pytest.fixture
def programs(place: Path) -> dict[str, str]:
    """An environment whose programs are stand-ins: what a job would start inside is started."""
    folder = place / "stand-ins"
    for name, text in PROGRAMS.items():
        program(folder / name, f"#!/bin/bash\n{text}exit 0\n")
    of_slurm = {f"SLURM_{name}": "1" for name in SLURM} | {"SLURM_SUBMIT_DIR": str(place)}
    return {"PATH": f"{folder}:{os.environ['PATH']}", "USER": "me", **of_slurm, **dict.fromkeys(MODULES, "/opt/x")}


def run_all(files: dict[str, str], place: Path, environ: dict[str, str]) -> None:
    """Read each file as its reader does."""
    (place / "run").mkdir(exist_ok=True)
    for name, text in files.items():
        on = text.replace("set -e", "set +e").replace("exit 1", ":")  # goes on where something is missing here
        (place / "run" / Path(name).name).write_text(on)
        for line in text.splitlines():
            assert not line.startswith("#SBATCH --wrap"), name
        if name.endswith(".toml"):
            tomlkit.parse(text)
        elif name.endswith((".yaml", ".yml")):
            list(yaml.safe_load_all(text))
        else:
            subprocess.run(["bash", name], cwd=place / "run", env=environ, capture_output=True, check=False, timeout=60)
        assert not list(place.rglob("ran")), name


@pytest.mark.parametrize(("system", "runtime"), CASES)
def test_hostile_text_in_any_field_of_a_system_is_refused_or_stays_text(
    system: str, runtime: str, place: Path, programs: dict[str, str]
) -> None:
    tree = load_extended(locate(SYSTEM, system), SYSTEM).tree.plain()
    tree = {key: value for key, value in tree.items() if key not in ("packages", "repos", "recognise")}
    fields = [
        (part, *path) for part in ("jobs", "scheduler", "site", "mount") if part in tree for path in leaves(tree[part])
    ]
    written = refused = 0
    fields = fields if WHOLE else fields[::3]
    (place / "systems").mkdir()
    for number, path in enumerate(fields):
        if set(MEANT) & set(path):
            continue
        words = HOSTILE[number % len(HOSTILE)] if number % 3 else "".join(HOSTILE)
        hostile = changed(tree, path, words)
        (place / "systems" / "mine.yaml").write_text(json.dumps(hostile))
        account = {} if runtime == "runai" else {"account": "g123", "time": "1:00"}
        request = JobRequest(words=("train.py",), system="mine", runtime=runtime, image="pytorch/v2.6.0:v1", **account)
        with contextlib.suppress(BadInput):
            refused += 1
            job = planned(request)
            refused -= 1
            written += 1
            run_all(dict(job.texts), place, programs)

    assert refused > 1, "no field is refused"
    assert written, "no field gets as far as a file"


def test_the_field_that_is_shell_does_run(place: Path, programs: dict[str, str]) -> None:
    """Else the test above would see nothing."""
    tree = load_extended(locate(SYSTEM, "olivia"), SYSTEM).tree.plain()
    (place / "systems").mkdir()
    hostile = changed(tree, ("jobs", "runtimes", "apptainer", "monitor"), f"; {RUN}; ")
    (place / "systems" / "mine.yaml").write_text(json.dumps(hostile))
    request = JobRequest(words=("train.py",), system="mine", runtime="apptainer", account="g123", time="1:00")

    with pytest.raises(AssertionError, match=r"job\.sh"):
        run_all(dict(planned(request).texts), place, programs)
