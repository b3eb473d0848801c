"""The command `new`: writes a commented recipe or system that is valid without changes, and prints the next steps."""

from __future__ import annotations

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
from uenvtool.knowledge.catalogue import GUESSED
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.detect import SeenSystem, node_type
from uenvtool.knowledge.from_stackinator import LARGEST, is_stackinator, lines_of_pin, lines_of_repos, read_stackinator
from uenvtool.knowledge.kinds import RECIPE, SYSTEM, Kind
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.recipe import read_recipe
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.schema import SCHEMA_DIRECTORY, schema
from uenvtool.knowledge.stackinator_view import LEFT_OUT
from uenvtool.knowledge.system import load_system

OWNED = "# Yours to change; made by uenvtool."
"""The first line of a user's files, which distinguishes them from the built-in files in a checkout."""
TEMPLATES = Path(__file__).parent / "templates"
STARTER = "hello"
"""The recipe that provides the Spack and the package repositories of a new recipe."""

IMAGES = {"uenv": "IMAGE", "container": "IMAGE", "environment": "ENVIRONMENT"}
"""The placeholder for --image in the suggested job, by the kind of image that its runtime uses."""
SLURM = "  slurm:\n    buildable: false\n    externals: [{{spec: slurm@{}, prefix: /usr}}]\n"
NO_CORES = "    # cores: 64 # per node; without it, jobs request no CPUs, and Slurm may give each task only one\n"


def new_recipe(name: str, extended: str | None = None) -> Result:
    """Write `recipes/NAME/recipe.yaml`. Raises BadInput if the name is invalid or exists in the current directory.

    extended: A recipe to extend, or the directory of a Stackinator recipe to convert.
    """
    if extended and is_stackinator(Path(extended)):
        return _imported(name, Path(extended))
    lines = extending(RECIPE, extended) if extended else _recipe_alone()
    return _written(RECIPE, name, lines, f"uenvtool build {name}")


def _imported(name: str, directory: Path) -> Result:
    starter = read_recipe(STARTER)
    recipes = read_stackinator(directory, (starter.spack, starter.repos["builtin"]))
    names = [name if len(recipes) == 1 else f"{name}-{environment}" for environment in recipes]
    results = [
        _written(RECIPE, new_name, recipe.lines, f"uenvtool build {new_name} --system SYSTEM", recipe.files)
        for new_name, recipe in zip(names, recipes.values(), strict=True)
    ]
    problems: list[Problem] = []
    for result in results:
        try:
            load_recipe(str(Path(result.data["file"]).absolute()))
        except BadInput as error:
            problems += error.problems
    marks = sum(line.lstrip().startswith(f"# {LEFT_OUT}") for recipe in recipes.values() for line in recipe.lines)
    several = [f"uenvtool image build {' '.join(names)} --system SYSTEM"] if len(names) > 1 else []
    return Result(
        data={"file": results[0].data["file"], "files": [result.data["file"] for result in results], "left_out": marks},
        text="\n".join(result.text for result in results),
        problems=tuple(problems),
        exit_code=ExitCode.USAGE if problems else ExitCode.DONE,
        notes=(f"{marks} comments contain the settings that a uenvtool recipe cannot express",) if marks else (),
        next=(
            *([f"grep -A1 '{LEFT_OUT}' {' '.join(result.text for result in results)}"] if marks else []),
            *dict.fromkeys(step for result in results for step in result.next),
            *several,
        ),
    )


def new_system(name: str, extended: str | None = None, properties: SeenSystem | None = None) -> Result:
    """Write `systems/NAME.yaml`. Raises BadInput if the name is invalid or exists in the current directory.

    properties: The known properties of the system. Without them, the user fills in the file.
    """
    if extended and properties:
        hint = f"leave these options out, and change the values in systems/{name}.yaml afterwards"
        raise BadInput("--from cannot be combined with --here, --fabric, --gpu, --cores or --runtime", hint=hint)
    lines = extending(SYSTEM, extended) if extended else _system_alone(properties or SeenSystem())
    use = load_runtime(properties.runtimes[0]).job if properties else None
    image = f" --image {IMAGES[use.image]}" if use and use.scheduler and use.image in IMAGES else ""
    nodes = " --nodes 2" if properties and properties.scheduler != "none" else ""  # otherwise only this machine
    first = f"uenvtool job --system {name}{nodes}{image} -- python train.py" if properties else ""
    result = _written(SYSTEM, name, lines, first or f"uenvtool build hello --system {name}")
    guessed = [f"guessed: {field}, {why}" for field, why in (properties.guessed if properties else {}).items()]
    detected = [f"detected with {', '.join(properties.seen)}"] if properties and properties.seen else []
    return replace(result, notes=(*detected, *guessed))


def _written(
    kind: Kind, name: str, lines: Sequence[str], build: str, copies: Mapping[str, Path] | None = None
) -> Result:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name.endswith((".yaml", ".yml")):
        hint = "use letters, digits, `.`, `_` and `-`, begin with a letter or digit, and omit the suffix .yaml"
        raise BadInput(f"{name!r} is not a valid name", hint=hint)
    path = Path(kind.file(name))
    with files.locked(path.parent, wait=True, below=False):
        if os.path.lexists(path):
            raise BadInput(f"{path} already exists", hint="edit that file, or choose a name that does not exist")
        text = "\n".join([_schema_line(kind, path), OWNED, *lines, "", *_other_fields(kind, lines)]) + "\n"
        if copies is None:  # Spack may accept a converted recipe that uenvtool rejects
            read = load_recipe if kind is RECIPE else load_system
            read(str(path.absolute()), text.encode())
        copied = [(file, files.read_bytes(source, LARGEST)) for file, source in (copies or {}).items()]
        files.write_all(path.parent, [*copied, (path.name, text)])
    return Result(
        data={"file": str(path)},
        text=str(path),
        next=(f"${{EDITOR:-vi}} {path}", f"uenvtool validate {path}", build),
    )


def extending(kind: Kind, name: str) -> list[str]:
    """Return the lines of a new file that extends another file without changes."""
    location = locate(kind, name)
    return [
        *comment(f"Inherits all values of {location.name}, which `uenvtool show {location.name}` prints."),
        f"extends: {scalar(name)}",
        f"description: {scalar(f'{location.name}, with our own changes.')}",
    ]


def _recipe_alone() -> list[str]:
    starter = read_recipe(STARTER)
    spack, repos = lines_of_pin(starter.spack), lines_of_repos(starter.repos)
    values = {"HOME": starter.home, "SPACK": "\n".join(spack), "REPOS": "\n".join(repos)}
    return filled((TEMPLATES / "recipe.yaml").read_text(encoding="utf-8"), **values).splitlines()


def _system_alone(properties: SeenSystem) -> list[str]:
    *names, last = schema(SYSTEM.name)["properties"]["fabric"]["enum"]
    gpus = properties.gpus
    vendor = {"nvidia": ["cuda"], "amd": ["rocm"]}.get(gpus.vendor if gpus else "", [])
    fabric = [properties.fabric] if properties.fabric in ("slingshot", "infiniband", "roce") else []
    partition = f"partition: {scalar(properties.partition)}, " if properties.partition else ""
    memory = f", memory: {gpus.memory}" if gpus and gpus.memory else ""
    gpu = (
        f"{{vendor: {gpus.vendor}, model: {scalar(gpus.model)}, arch: {gpus.arch}, count: {gpus.count}{memory}}}"
        if gpus
        else ""
    )
    node = {"cores": str(properties.cores or ""), "memory": str(properties.memory or ""), "gpu": gpu}
    lines = filled(
        (TEMPLATES / "system.yaml").read_text(encoding="utf-8"),
        FABRICS=f"{', '.join(names)} or {last}",
        FABRIC=properties.fabric,
        RUNTIMES=", ".join(properties.runtimes),
        SCHEDULER=properties.scheduler,
        USUAL=f', defaults: {{{partition}nodes: 2, time: "01:00:00"}}' if gpus or properties.seen else "",
        TUNING=", ".join([*fabric, *vendor, "pytorch", *(["nccl"] if vendor else [])]),
        NODE=node_type(gpus),
        TARGET=properties.target,
        OS=properties.os,
        GLIBC=properties.glibc,
        GCC=properties.gcc,
        SLURM=SLURM.format(properties.slurm) if properties.scheduler == "slurm" else "",
        HARDWARE=("" if properties.cores else NO_CORES)
        + "".join(f"    {name}: {value}\n" for name, value in node.items() if value),
    ).splitlines()
    marked = []
    for line in lines:
        name = line.strip().partition(":")[0]
        indent = line[: len(line) - len(line.lstrip())]
        marked += [f"{indent}{GUESSED} {properties.guessed[name]}"] if name in properties.guessed else []
        marked.append(line)
    return marked


def _other_fields(kind: Kind, lines: Sequence[str]) -> list[str]:
    properties = schema(kind.name)["properties"]
    used = {line.partition(":")[0] for line in lines}
    rest = {name: field for name, field in properties.items() if name not in used and field.get("description")}
    lines = ["# Other fields:"]
    for name, field in rest.items():
        first, *more = comment(f"{name}: {field['description']}")
        lines += [first.replace("# ", "#   ", 1), *(line.replace("# ", "#     ", 1) for line in more)]
    return lines


def _schema_line(kind: Kind, path: Path) -> str:
    file = SCHEMA_DIRECTORY / f"{kind.name}.json"
    is_near = file.is_relative_to(Path.cwd())
    place = os.path.relpath(file, path.absolute().parent) if is_near else schema(kind.name)["$id"]
    return f"# yaml-language-server: $schema={place}"
