"""Every text that knowledge can hold has a form; hostile words in it are refused, or stay text in what is written.

The files are read by the programs that they are for: scripts by bash, with stand-ins for what is not here.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import dockerfile_parse
import pytest
import tomlkit
import yaml

from tests.conftest import Cli
from tests.faults import CASES
from tests.fuzz.test_security import CONTROL
from tests.support.images import copied
from tests.support.needs import need, skip_without
from tests.support.programs import program
from tests.support.samples import sampled
from uenvtool.activation import activate
from uenvtool.activation.script import SHELLS
from uenvtool.check import launchers
from uenvtool.container.image import image_of
from uenvtool.container.plan import planned as planned_container
from uenvtool.container.request import ContainerRequest
from uenvtool.core.errors import BadInput
from uenvtool.env import manifest, stackinator
from uenvtool.env.plan import plan_environment
from uenvtool.job.make import planned
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.kinds import (
    COMPONENT,
    CONTAINER,
    FINDINGS,
    KINDS,
    LAUNCHER,
    RECIPE,
    RULES,
    RUNTIME,
    SYSTEM,
    TUNING,
    Kind,
)
from uenvtool.knowledge.launcher import load_launcher
from uenvtool.knowledge.load import load_extended
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.settings import settings_for
from uenvtool.knowledge.system import load_system

T = TypeVar("T")
RUN = "touch ran"
HOSTILE = [f"$({RUN})", f"`{RUN}`", f"; {RUN}; ", f"\n{RUN}\n", f"'; {RUN}; '", f'"; {RUN}; "', f" & {RUN} # "]
HOSTILE += [f"\n#SBATCH --wrap={RUN}\n", f"'$({RUN})'", f'"$({RUN})"', f"\\\n{RUN}\n"]
FORMS = {
    "prose": "for readers: it stands in comments and messages (tests/fuzz/test_writers.py)",
    "condition": "taken apart by knowledge/condition.py",
    "spec": "taken apart by knowledge/spec.py",
    "name": "of something that must exist",
    "path": "of another file of knowledge",
    "regex": "compiled",
    "shell": "meant to be a command",
    "command": "meant to be pasted into a shell (tests/docs/test_named_commands.py)",
    "log": "lines of a log, for readers",
}
SHELL = {
    "findings findings.command": "shown, to be pasted",
    "findings log.command": "shown, to be pasted",
    "runtime use.lines": "shown, to be pasted",
    "runtime job.srun": "a part of a job's command",
    "runtime job.staged": "a part of a job's command",
    "runtime job.step": "a part of a job's command",
    "runtime job.address": "a command of a job",
}
"""The fields that are shell beside `monitor` of a system; docs/security.md names them."""
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


def parts_of(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema within a schema, with the name of the field that it is of."""
    if not isinstance(schema, dict):
        return
    yield ".".join(path), schema
    for name, inner in [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]:
        yield from parts_of(inner, (*path, name))
    for inner in [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]:
        yield from parts_of(inner, path)


FIELDS = [(kind.name, name, part) for kind in KINDS for name, part in parts_of(json.loads(schema_text(kind.name)))]


def test_every_text_has_a_form_and_every_mapping_knows_its_names() -> None:
    without = []
    for kind, name, part in FIELDS:
        if "string" in part.get("type", ()) and not part.keys() & {"pattern", "enum", "const", "format", "$ref"}:
            without.append(f"{kind} {name}: no pattern, enum or format")
        if "object" in part.get("type", ()) and not part.keys() & {"properties", "propertyNames"}:
            without.append(f"{kind} {name}: no properties or propertyNames")

    assert without == []
    assert {part["format"] for _, _, part in FIELDS if "format" in part} <= FORMS.keys()
    assert {
        f"{kind} {name}" for kind, name, part in FIELDS if part.get("format") in ("shell", "command")
    } == SHELL.keys()


def some(items: Iterable[Any], count: int) -> list[Any]:
    """So many of them, evenly; all where many cases are wanted."""
    found = list(items)
    return found if CASES else found[:: max(1, len(found) // count)]


def tried(kind: Kind, name: str, place: Path, count: int, made: Callable[[], T]) -> Iterator[tuple[str, T]]:
    """What is made of a file of one's own with hostile words in one field, for one field after another.

    Fields are refused, and others get as far as what is made: else this would see nothing.
    """
    written = refused = 0
    for field in hostile_files(kind, name, place, count):
        try:
            found = made()
        except BadInput:
            refused += 1
            continue
        written += 1
        yield field, found
    print(f"written {written}, refused {refused}")
    assert written, "no field gets as far as a file"
    assert refused, "no field is refused"


def hostile_files(kind: Kind, name: str, place: Path, count: int) -> Iterator[str]:
    """Write each such file; gives what is in it."""
    tree = load_extended(locate(kind, name), kind).tree.plain()
    tree.pop("published", None)  # names a file beside it
    parts = {key: value for key, value in tree.items() if kind is not SYSTEM or key in OF_JOBS}
    file = place / kind.file("mine" if kind in (RECIPE, CONTAINER, SYSTEM) else name)
    file.parent.mkdir(parents=True, exist_ok=True)
    meant = {"monitor", *(field.rpartition(".")[2] for field in SHELL)}
    paths = [path for path in leaves(parts) if not meant & set(path)]
    if kind is SYSTEM:
        paths = [path for path in paths if len(path) > 2 or path[-1] is not None]  # the parts themselves have names
    names = [path for path in paths if path[-1] is None]
    chance = random.Random(len(paths))
    for path in [*some((path for path in paths if path[-1] is not None), count), *some(names, count // 4)]:
        words = chance.choice([*HOSTILE, "".join(HOSTILE)])
        file.write_text(json.dumps(changed(tree, path, words)))
        yield f"{name} {path} {words!r}"


OF_JOBS = ("jobs", "scheduler", "site", "mount")
"""The parts of a system that jobs are made of."""
PLACES = [("uenv", "clariden"), ("ce", "clariden"), ("apptainer", "olivia"), ("runai", "rcp")]


def job_of(system: str, runtime: str, *words: str, **more: Any) -> dict[str, str]:
    of_slurm = {} if runtime == "runai" else {"account": "g123", "time": "1:00"}
    wanted = JobRequest(
        words=(*words, "train.py"), system=system, runtime=runtime, image="pytorch/v2.6.0:v1", **of_slurm, **more
    )
    return planned(wanted)[1]


@pytest.mark.parametrize(("runtime", "system"), PLACES)
def test_systems_in_jobs(system: str, runtime: str, place: Path, programs: dict[str, str]) -> None:
    for _, texts in tried(SYSTEM, system, place, 60, lambda: job_of("mine", runtime)):
        run_all(texts, place, programs)


def test_the_field_that_is_shell_does_run(place: Path, programs: dict[str, str]) -> None:
    """Else the tests here would see nothing."""
    tree = load_extended(locate(SYSTEM, "olivia"), SYSTEM).tree.plain()
    (place / "systems").mkdir()
    hostile = changed(tree, ("jobs", "runtimes", "apptainer", "monitor"), f"; {RUN}; ")
    (place / "systems" / "mine.yaml").write_text(json.dumps(hostile))

    with pytest.raises(AssertionError, match=r"job\.sh"):
        run_all(job_of("mine", "apptainer"), place, programs)


@pytest.mark.parametrize(("runtime", "system"), sampled([PLACES[2], *PLACES[:2]]))
def test_runtimes_in_jobs(runtime: str, system: str, place: Path, programs: dict[str, str]) -> None:
    for _, texts in tried(RUNTIME, runtime, place, 8, lambda: job_of(system, runtime)):
        run_all(texts, place, programs)


@pytest.mark.parametrize("launcher", sampled(["llamafactory", "torchrun", "deepspeed"]))
def test_launchers_in_jobs(launcher: str, place: Path, programs: dict[str, str]) -> None:
    command = load_launcher(launcher).command.split()

    def made() -> dict[str, str]:
        load_launcher(launcher)  # one that is refused a job leaves out, and takes the one that ships
        for known in (launchers.launchers, launchers._commands):
            known.cache_clear()
        return job_of("clariden", "uenv", *command, nodes=2)

    for _, texts in tried(LAUNCHER, launcher, place, 8, made):
        run_all(texts, place, programs)


@pytest.mark.parametrize("word", ["x touch ran", "$(touch ran)", "`touch ran`", "x; touch ran", '"x', "a\\", "${A:-b}"])
def test_values_of_launchers_are_one_word_that_runs_nothing(word: str, place: Path) -> None:
    tree = load_extended(locate(LAUNCHER, "llamafactory"), LAUNCHER).tree.plain()
    for name in ("variables", "options"):
        (place / "mine.yaml").write_text(json.dumps({**tree, name: {"NPROC": word}}))
        with pytest.raises(BadInput):
            load_launcher(str(place / "mine.yaml"))


@pytest.mark.parametrize(("tuning", "system"), sampled([("roce", "rcp"), ("slingshot", "clariden")]))
def test_tunings_in_every_shell_and_format(tuning: str, system: str, place: Path, programs: dict[str, str]) -> None:
    (place / "run").mkdir()
    readers = {shell: [shell] for shell in SHELLS if shutil.which(shell)} | {"dotenv": ["bash"]}
    for field, activation in tried(TUNING, tuning, place, 8, lambda: settings_for(system)):
        for form in [*readers, "edf"]:
            with contextlib.suppress(BadInput):  # a form that cannot hold it
                text = activate.text(activation, form, "uenvtool activate")
                if form == "edf":
                    run_all({"a.toml": text}, place, programs)
                    continue
                (place / "run/script").write_text(text)
                words = [*readers[form], "script"]
                subprocess.run(words, cwd=place / "run", env=programs, capture_output=True, check=False, timeout=60)
                assert not list(place.rglob("ran")), (field, form)


def test_recipes_in_environments(place: Path) -> None:
    def made() -> dict[str, str]:
        environment = plan_environment(load_recipe("mine"), load_system("clariden"), "gh200")
        return {**manifest.render(environment), **stackinator.render_recipe(environment, 2)}

    for field, files in tried(RECIPE, "pytorch-2.9", place, 8, made):
        for name, text in files.items():
            if name.endswith((".yaml", ".yml")):
                list(yaml.safe_load_all(text))
                assert not any(line.strip().startswith(RUN) for line in text.splitlines()), (field, name)


@pytest.fixture
def empty_root(place: Path) -> Path:
    """A root with bash and touch alone: what a Containerfile runs can do no harm in it."""
    if os.geteuid() != 0:
        skip_without("root, for chroot", "run the tests as root")
    root = place / "root"
    for name in ("bin", "lib", "usr/bin"):
        (root / name).mkdir(parents=True)
    for name in ("bash", "touch"):
        copied(Path(need(name)).resolve(), root)
        with contextlib.suppress(FileExistsError):
            (root / "bin" / name).symlink_to(Path(need(name)).resolve())
    (root / "bin/sh").symlink_to("bash")
    assert in_root(root, ["bash", "-c", "touch ran; echo $BASH_VERSION"]).stdout.startswith("5")
    assert (root / "ran").exists()
    (root / "ran").unlink()
    return root


def in_root(root: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run words in a root that has next to nothing."""
    inside = [need("chroot"), str(root), "/bin/bash", "-c", '"$@"', "-", *words]
    env = {"PATH": "/bin:/usr/bin"}
    return subprocess.run(inside, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("kind", "name"),
    sampled([(CONTAINER, "ngc-pytorch-25.06"), (COMPONENT, "libfabric"), (COMPONENT, "ucx")], 2),
)
def test_containers_and_components_in_what_builds_them(kind: Kind, name: str, place: Path, empty_root: Path) -> None:
    wanted = ContainerRequest(recipe="mine" if kind is CONTAINER else "metatrain-alps6")

    def made() -> Mapping[str, str]:
        return image_of(planned_container(wanted), "uenvtool container").files

    for field, files in tried(kind, name, place, 8, made):
        parsed = dockerfile_parse.DockerfileParser(fileobj=io.BytesIO())
        parsed.content = files["Containerfile"]
        for step in parsed.structure:
            assert step["instruction"] not in ("TOUCH", "'TOUCH", ";"), field
            if step["instruction"] == "RUN":
                value = step["value"]
                words = json.loads(value) if value.startswith("[") else ["bash", "-c", value]
                in_root(empty_root, words)
        for file, text in files.items():
            if text.startswith("#!") and "sh" in text.splitlines()[0]:
                in_root(empty_root, ["bash", "-c", text])
            elif file.endswith((".yaml", ".yml")):
                list(yaml.safe_load_all(text))
        assert not list(empty_root.rglob("ran")), field


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    sampled(
        [
            (RULES, "slurm", ["check", "job.sh"]),
            (FINDINGS, "nccl", ["doctor", "--log", "job.log"]),
            (RULES, "slurm", ["check", "job.sh", "--json"]),
            (FINDINGS, "nccl", ["doctor", "--log", "job.log", "--json"]),
        ]
    ),
)
def test_rules_and_findings_in_what_is_shown(kind: Kind, name: str, words: list[str], place: Path, cli: Cli) -> None:
    (place / "job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    (place / "job.log").write_text("NCCL WARN Error: remote process exited\nNCCL INFO NET/Socket : Using [0]eth0\n")
    for field in hostile_files(kind, name, place, 4):
        answer = cli(*words)
        assert answer.code in (0, 1, 2), field
        assert not CONTROL.search(answer.stdout + answer.stderr), field
        if "--json" in words:
            json.loads(answer.stdout)
    assert not list(place.rglob("ran"))
