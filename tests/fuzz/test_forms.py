"""Every text that knowledge can hold has a form; hostile words in it are refused, or stay text in what is written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import dockerfile_parse
import pytest
import yaml

from tests.conftest import Cli
from tests.faults import CASES
from tests.fuzz.test_fields import HOSTILE, RUN, changed, leaves, programs, run_all
from tests.fuzz.test_security import CONTROL
from tests.support.images import _copied
from tests.support.needs import need, skip_without
from uenvtool.activation import activate
from uenvtool.activation.shells import shells
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
    TUNING,
    Kind,
)
from uenvtool.knowledge.launcher import load_launcher
from uenvtool.knowledge.load import load_extended
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.settings import settings_for
from uenvtool.knowledge.system import load_system

__all__ = ["programs"]
FORMS = {
    "prose": "for readers: it stands in comments and messages (tests/fuzz/test_writers.py)",
    "condition": "taken apart by knowledge/condition.py",
    "spec": "taken apart by knowledge/spec.py",
    "name": "of something that must exist",
    "path": "of another file of knowledge",
    "regex": "compiled",
    "shell": "meant to be a command",
}
SHELL = {
    "findings findings.command": "shown, to be pasted",
    "runtime use.lines": "shown, to be pasted",
    "runtime job.srun": "a part of a job's command",
    "runtime job.staged": "a part of a job's command",
    "runtime job.step": "a part of a job's command",
    "runtime job.address": "a command of a job",
}
"""The fields that are shell beside `monitor` of a system; docs/security.md names them."""


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
        if "string" in part.get("type", ()) and not part.keys() & {"pattern", "enum", "const", "format"}:
            without.append(f"{kind} {name}: no pattern, enum or format")
        if "object" in part.get("type", ()) and not part.keys() & {"properties", "propertyNames"}:
            without.append(f"{kind} {name}: no properties or propertyNames")

    assert without == []
    assert {part["format"] for _, _, part in FIELDS if "format" in part} <= FORMS.keys()
    assert {f"{kind} {name}" for kind, name, part in FIELDS if part.get("format") == "shell"} == SHELL.keys()


def some(items: Iterable[Any], count: int) -> list[Any]:
    """So many of them, evenly; all where many cases are wanted."""
    found = list(items)
    return found if CASES else found[:: max(1, len(found) // count)]


def hostile_files(kind: Kind, name: str, place: Path, count: int) -> Iterator[str]:
    """A file of one's own with hostile words in one field, for one field after another; its name."""
    tree = load_extended(locate(kind, name), kind).tree.plain()
    tree.pop("published", None)  # names a file beside it
    file = place / kind.file("mine" if kind in (RECIPE, CONTAINER) else name)
    file.parent.mkdir(parents=True, exist_ok=True)
    meant = {field.rpartition(".")[2] for field in SHELL}
    paths = [path for path in leaves(tree) if not meant & set(path)]
    names = [path for path in paths if path[-1] is None]
    chance = random.Random(len(paths))
    for path in [*some((path for path in paths if path[-1] is not None), count), *some(names, count // 4)]:
        words = chance.choice([*HOSTILE, "".join(HOSTILE)])
        file.write_text(json.dumps(changed(tree, path, words)))
        yield f"{name} {path} {words!r}"


def assert_both(written: int, refused: int) -> None:
    print(f"written {written}, refused {refused}")
    assert written, "no field gets as far as a file"
    assert refused, "no field is refused"


RUNTIMES = [("uenv", "clariden"), ("ce", "clariden"), ("apptainer", "olivia")]


@pytest.mark.parametrize(("runtime", "system"), RUNTIMES)
def test_runtimes_in_jobs(runtime: str, system: str, place: Path, programs: dict[str, str]) -> None:
    written = refused = 0
    for _ in hostile_files(RUNTIME, runtime, place, 8):
        request = JobRequest(
            words=("train.py",), system=system, runtime=runtime, image="pytorch/v2.6.0:v1", account="g123", time="1:00"
        )
        with contextlib.suppress(BadInput):
            refused += 1
            job = planned(request)
            refused, written = refused - 1, written + 1
            run_all(dict(job.texts), place, programs)
    assert_both(written, refused)


@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed", "llamafactory"])
def test_launchers_in_jobs(launcher: str, place: Path, programs: dict[str, str]) -> None:
    written = refused = 0
    command = load_launcher(launcher).command.split()
    request = JobRequest(
        words=(*command, "train.py"),
        system="clariden",
        runtime="uenv",
        image="pytorch/v2.6.0:v1",
        account="g123",
        time="1:00",
        nodes=2,
    )
    for _ in hostile_files(LAUNCHER, launcher, place, 8):
        try:
            load_launcher(launcher)
        except BadInput:  # a job leaves it out, and takes the one that ships
            refused += 1
            continue
        for known in (launchers.known_launchers, launchers.launchers, launchers._commands):
            known.cache_clear()
        with contextlib.suppress(BadInput):
            job = planned(request)
            written += 1
            run_all(dict(job.texts), place, programs)
    assert_both(written, refused)


@pytest.mark.parametrize("word", ["x touch ran", "$(touch ran)", "`touch ran`", "x; touch ran", '"x', "a\\", "${A:-b}"])
def test_values_of_launchers_are_one_word_that_runs_nothing(word: str, place: Path) -> None:
    tree = load_extended(locate(LAUNCHER, "llamafactory"), LAUNCHER).tree.plain()
    for name in ("variables", "options"):
        (place / "mine.yaml").write_text(json.dumps({**tree, name: {"NPROC": word}}))
        with pytest.raises(BadInput):
            load_launcher(str(place / "mine.yaml"))


@pytest.mark.parametrize("tuning", ["slingshot", "roce"])
def test_tunings_in_every_shell_and_format(tuning: str, place: Path, programs: dict[str, str]) -> None:
    system = {"slingshot": "clariden", "roce": "rcp"}[tuning]
    (place / "run").mkdir()
    here = [shell for shell in shells() if shutil.which(shell)]
    written = refused = 0
    for field in hostile_files(TUNING, tuning, place, 8):
        try:
            activation = settings_for(system)
        except BadInput:
            refused += 1
            continue
        written += 1
        for shell in [*here, "dotenv", "edf"]:
            with contextlib.suppress(BadInput):  # a form that cannot hold it
                text = activate.text(activation, shell, "uenvtool activate")
                (place / "run/script").write_text(text)
                reader = {**{name: [name] for name in here}, "dotenv": ["bash"]}.get(shell)
                if shell == "edf":
                    run_all({"a.toml": text}, place, programs)
                elif reader and shutil.which(reader[0]):
                    words, where = [*reader, "script"], place / "run"
                    subprocess.run(words, cwd=where, env=programs, capture_output=True, check=False, timeout=60)
                assert not list(place.rglob("ran")), (field, shell)
    assert_both(written, refused)


def test_recipes_in_environments(place: Path) -> None:
    written = refused = 0
    for field in hostile_files(RECIPE, "pytorch-2.9", place, 8):
        try:
            environment = plan_environment(load_recipe("mine"), load_system("clariden"), "gh200")
            files = {**manifest.render(environment), **stackinator.render_recipe(environment, 2)}
        except BadInput:
            refused += 1
            continue
        written += 1
        for name, text in files.items():
            if name.endswith((".yaml", ".yml")):
                list(yaml.safe_load_all(text))
                assert not any(line.strip().startswith(RUN) for line in text.splitlines()), (field, name)
    assert_both(written, refused)


@pytest.fixture
def empty_root(place: Path) -> Path:
    """A root with bash and touch alone: what a Containerfile runs can do no harm in it."""
    if os.geteuid() != 0:
        skip_without("root, for chroot", "run the tests as root")
    root = place / "root"
    for name in ("bin", "lib", "usr/bin"):
        (root / name).mkdir(parents=True)
    for program in ("bash", "touch"):
        _copied(Path(need(program)).resolve(), root)
        with contextlib.suppress(FileExistsError):
            (root / "bin" / program).symlink_to(Path(need(program)).resolve())
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
    ("kind", "name"), [(CONTAINER, "ngc-pytorch-25.06"), (COMPONENT, "ucx"), (COMPONENT, "libfabric")]
)
def test_containers_and_components_in_what_builds_them(kind: Kind, name: str, place: Path, empty_root: Path) -> None:
    written = refused = 0
    recipe = "mine" if kind is CONTAINER else "metatrain-alps6"
    for field in hostile_files(kind, name, place, 8):
        try:
            files = image_of(planned_container(ContainerRequest(recipe=recipe)), "uenvtool container").files
        except BadInput:
            refused += 1
            continue
        written += 1
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
    assert_both(written, refused)


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (RULES, "slurm", ["check", "job.sh"]),
        (RULES, "slurm", ["check", "job.sh", "--json"]),
        (FINDINGS, "nccl", ["doctor", "--log", "job.log"]),
        (FINDINGS, "nccl", ["doctor", "--log", "job.log", "--json"]),
    ],
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
