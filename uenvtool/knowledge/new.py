"""A new recipe or system of the user's: a commented file that is valid as it stands, and what to do next."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ExitCode, Problem
from uenvtool.core.filling import filled
from uenvtool.core.result import Result
from uenvtool.core.yamltext import comment, scalar
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.detect import SeenSystem, node_type
from uenvtool.knowledge.from_stackinator import is_stackinator, lines_of_pin, lines_of_repos, read_stackinator
from uenvtool.knowledge.kinds import RECIPE, SYSTEM, Kind
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.recipe import read_recipe
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.schema import SCHEMA_FOLDER, schema_text
from uenvtool.knowledge.stackinator_view import LEFT_OUT
from uenvtool.knowledge.system import load_system

OWNED = "# Yours to change; made by uenvtool."
"""The first line of files that the tool makes for a user: in a checkout they lie beside the built-in ones."""
TEMPLATES = Path(__file__).parent / "templates"
STARTER = "hello"
"""The recipe whose Spack and package repositories a new recipe starts with."""

IMAGES = {"uenv": "IMAGE", "container": "IMAGE", "environment": "ENVIRONMENT"}
"""What a first job names with --image, by what its runtime runs."""
LARGEST = 10_000_000
"""Bytes of a file beside a recipe: a package of Spack's, a patch."""
NO_CORES = "    # cores: 64 # those of a node; without them jobs ask for no CPUs, and Slurm may give a task one\n"


def new_recipe(name: str, extended: str | None = None) -> Result:
    """Write `recipes/NAME/recipe.yaml`. extended: a recipe to extend, or the folder of one of Stackinator to read.

    Raises BadInput for a name that is none, or is taken in this folder.
    """
    if extended and is_stackinator(Path(extended)):
        return _imported(name, Path(extended))
    lines = extending(RECIPE, extended) if extended else _recipe_alone()
    return _written(RECIPE, name, lines, f"uenvtool build {name}")


def _imported(name: str, folder: Path) -> Result:
    """Write a recipe of ours for each environment of one of Stackinator: NAME, or of several NAME-ENVIRONMENT."""
    starter = read_recipe(STARTER)
    found = read_stackinator(folder, (starter.spack, starter.repos["builtin"]))
    names = [name if len(found) == 1 else f"{name}-{environment}" for environment in found]
    results = [
        _written(RECIPE, one, recipe.lines, f"uenvtool build {one} --system SYSTEM", recipe.files)
        for one, recipe in zip(names, found.values(), strict=True)
    ]
    problems: list[Problem] = []
    for result in results:
        try:
            load_recipe(str(Path(result.data["file"]).absolute()))
        except BadInput as error:  # as it is there: Spack may take what is refused here
            problems += error.problems
    marks = sum(line.lstrip().startswith(f"# {LEFT_OUT}") for recipe in found.values() for line in recipe.lines)
    several = [f"uenvtool image build {' '.join(names)} --system SYSTEM"] if len(names) > 1 else []
    return Result(
        data={"file": results[0].data["file"], "files": [result.data["file"] for result in results], "left_out": marks},
        text="\n".join(result.text for result in results),
        problems=tuple(problems),
        exit_code=ExitCode.USAGE if problems else ExitCode.DONE,
        notes=(f"what it says and ours cannot stands in {marks} comments",) if marks else (),
        next=(
            *([f"grep -A1 '{LEFT_OUT}' {' '.join(result.text for result in results)}"] if marks else []),
            *dict.fromkeys(step for result in results for step in result.next),
            *several,
        ),
    )


def new_system(name: str, extended: str | None = None, found: SeenSystem | None = None) -> Result:
    """Write `systems/NAME.yaml`. found: what is known of it, if it is not for the user to fill in.

    Raises BadInput for a name that is none, or is taken in this folder.
    """
    lines = extending(SYSTEM, extended) if extended else _system_alone(found or SeenSystem())
    use = load_runtime(found.runtimes[0]).job if found else None
    image = f" --image {IMAGES[use.image]}" if use and use.scheduler and use.image in IMAGES else ""
    nodes = " --nodes 2" if found and found.scheduler != "none" else ""  # else it is this machine alone
    first = f"uenvtool job --system {name}{nodes}{image} -- python train.py" if found else ""
    result = _written(SYSTEM, name, lines, first or f"uenvtool build hello --system {name}")
    guessed = [f"guessed: {what}, {why}" for what, why in (found.guessed if found else {}).items()]
    return replace(result, notes=(*([f"seen by {', '.join(found.seen)}"] if found and found.seen else []), *guessed))


def _written(
    kind: Kind, name: str, lines: Sequence[str], build: str, beside: Mapping[str, Path] | None = None
) -> Result:
    """Write a file of the user's. beside: of one that is read from another form, the files beside it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name.endswith((".yaml", ".yml")):
        raise BadInput(f"{name!r} cannot be a name", hint="take letters, digits, `.`, `_` and `-`")
    path = Path(kind.file(name))
    with files.locked(path.parent, wait=True, below=False):
        if os.path.lexists(path):
            raise BadInput(f"{path} exists", hint="choose another name, or edit that file")
        text = "\n".join([_schema_line(kind, path), OWNED, *lines, "", *_further(kind, lines)]) + "\n"
        if beside is None:
            read = load_recipe if kind is RECIPE else load_system
            read(str(path.absolute()), text.encode())
        copied = [(file, files.read_bytes(source, LARGEST)) for file, source in (beside or {}).items()]
        files.write_all(path.parent, [*copied, (path.name, text)])
    return Result(
        data={"file": str(path)},
        text=str(path),
        next=(f"${{EDITOR:-vi}} {path}", f"uenvtool validate {path}", build),
    )


def extending(kind: Kind, name: str) -> list[str]:
    """Return the lines of a file of the user's that extends another one and changes nothing yet."""
    location = locate(kind, name)
    return [
        *comment(f"Everything of {location.name} that is not said here; `uenvtool show {location.name}` prints it."),
        f"extends: {scalar(name)}",
        f"description: {scalar(f'{location.name}, with changes of our own.')}",
    ]


def _recipe_alone() -> list[str]:
    starter = read_recipe(STARTER)
    spack, repos = lines_of_pin(starter.spack), lines_of_repos(starter.repos)
    values = {"HOME": starter.home, "SPACK": "\n".join(spack), "REPOS": "\n".join(repos)}
    return filled(_template("recipe.yaml"), **values).splitlines()


def _system_alone(found: SeenSystem) -> list[str]:
    *words, last = json.loads(schema_text(SYSTEM.name))["properties"]["fabric"]["enum"]
    gpus = found.gpus
    vendor = {"nvidia": ["cuda"], "amd": ["rocm"]}.get(gpus.vendor if gpus else "", [])
    fabric = [found.fabric] if found.fabric in ("slingshot", "infiniband", "roce") else []
    partition = f"partition: {scalar(found.partition)}, " if found.partition else ""
    memory = f", memory: {gpus.memory}" if gpus and gpus.memory else ""
    gpu = (
        f"{{vendor: {gpus.vendor}, model: {scalar(gpus.model)}, arch: {gpus.arch}, count: {gpus.count}{memory}}}"
        if gpus
        else ""
    )
    node = {"cores": str(found.cores or ""), "memory": str(found.memory or ""), "gpu": gpu}
    lines = filled(
        _template("system.yaml"),
        FABRICS=f"{', '.join(words)} or {last}",
        FABRIC=found.fabric,
        RUNTIMES=", ".join(found.runtimes),
        SCHEDULER=found.scheduler,
        USUAL=f', defaults: {{{partition}nodes: 2, time: "01:00:00"}}' if gpus or found.seen else "",
        TUNING=", ".join([*fabric, *vendor, "pytorch", *(["nccl"] if vendor else [])]),
        NODE=node_type(gpus),
        TARGET=found.target,
        OS=found.os,
        GLIBC=found.glibc,
        GCC=found.gcc,
        HARDWARE=("" if found.cores else NO_CORES)
        + "".join(f"    {name}: {value}\n" for name, value in node.items() if value),
    ).splitlines()
    return [line for one in lines for line in (*_guess(found, one), one)]


def _guess(found: SeenSystem, line: str) -> list[str]:
    """Return the mark above a value that nobody saw."""
    name = line.strip().partition(":")[0]
    indent = line[: len(line) - len(line.lstrip())]
    return [f"{indent}# guessed: {found.guessed[name]}"] if name in found.guessed else []


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _further(kind: Kind, lines: Sequence[str]) -> list[str]:
    """Return what else such a file can say, as comments, from the schema's own descriptions."""
    properties = json.loads(schema_text(kind.name))["properties"]
    used = {line.partition(":")[0] for line in lines}
    rest = {name: field for name, field in properties.items() if name not in used and field.get("description")}
    return ["# More that can stand here:", *(line for name, field in rest.items() for line in _field(name, field))]


def _field(name: str, field: dict[str, str]) -> list[str]:
    first, *more = comment(f"{name}: {field['description']}")
    return [first.replace("# ", "#   ", 1), *(line.replace("# ", "#     ", 1) for line in more)]


def _schema_line(kind: Kind, path: Path) -> str:
    """Return the line by which editors find the schema: relative in a checkout, else by the name that it has itself."""
    schema = SCHEMA_FOLDER / f"{kind.name}.json"
    is_near = schema.is_relative_to(Path.cwd())
    named = json.loads(schema_text(kind.name))["$id"]
    place = os.path.relpath(schema, path.absolute().parent) if is_near else named
    return f"# yaml-language-server: $schema={place}"
