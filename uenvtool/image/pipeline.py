"""Writes the pipeline of a uenv: resolved and compared, built on nodes, tested, marked, published."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from uenvtool.core import files, quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.filling import filled
from uenvtool.core.lines import bash_words
from uenvtool.core.pipeline import Job, end_of_script, gitlab
from uenvtool.core.result import Result
from uenvtool.core.value import value_class
from uenvtool.env.environment import Environment, plan_environment
from uenvtool.env.next_steps import usual_folder
from uenvtool.image.cache import repository_name
from uenvtool.knowledge.choice import choose, load_recipe
from uenvtool.knowledge.options import RecipeName, SystemName, Uarch

TEMPLATE = Path(__file__).parent / "ci.sh"
STAGES = ("resolve", "build", "test", "publish")


@value_class
class PipelineRequest:
    """A request for the pipeline of a uenv."""

    recipe: RecipeName
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("-o", metavar="DIR", help="Where to write; default: pipelines/RECIPE/SYSTEM-UARCH.")
    ] = None
    check: Annotated[bool, Option("--check", help="Exit 1 with a diff if DIR is not what its inputs give.")] = False
    force: Annotated[bool, Option("--force", help="Replace uenvtool's files that were changed.")] = False


def write_pipeline(request: PipelineRequest) -> Result:
    """Write the pipeline of a recipe for a system, or compare it with what is there.

    Raises BadInput for a recipe or folder that is none; AnswerIsNo if a check finds differences.
    """
    recipe = load_recipe(request.recipe)
    choice = choose(recipe, request.system, request.uarch)
    environment = plan_environment(recipe, choice.system, choice.uarch)
    folder = request.output or usual_folder(environment, "pipelines")
    if os.path.isabs(folder) or ".." in folder.parts:
        raise BadInput(f"{folder} is not in the repository", hint="name a folder below this one, where jobs find it")
    texts = render_pipeline(environment, request.recipe, folder)
    again = shlex.join(["uenvtool", "image", "pipeline", *_inputs(environment, request.recipe)])
    if request.check:
        files.check_generated(folder, texts, again=again)
        return Result(data={"folder": str(folder), "files": list(texts)}, notes=(f"{folder} is as its inputs give it",))
    with files.locked(folder):
        files.refuse_foreign(folder, texts, force=request.force)
        files.write_generated(folder, texts)
    return Result(
        data={"folder": str(folder), "files": list(texts)},
        text="\n".join(str(folder / name) for name in texts),
        next=(f"include it in .gitlab-ci.yml: include: [{{local: {folder}/gitlab-ci.yml}}]",),
    )


def render_pipeline(environment: Environment, recipe: str, folder: Path) -> dict[str, str]:
    """Return the files of a pipeline that lies in a folder of the repository. recipe: as the user names it."""
    inputs = _inputs(environment, recipe)
    target = usual_folder(environment)
    again = quoting.comment(shlex.join(["uenvtool", "image", "pipeline", *inputs, "-o", os.fspath(folder)]))
    name = f"{environment.recipe.name} {target.name}"
    head = [
        f"The pipeline of the uenv {environment.purpose}",
        f"Made by uenvtool, again: {again}",
        f"Use it from .gitlab-ci.yml with those of other uenvs: include: [{{local: {folder}/gitlab-ci.yml}}, ...]",
        "Variables of the project: those that ci.sh names, and the tags of two runners: BUILDER has Spack and skopeo,",
        "NODES is a node, or starts jobs there.",
    ]
    jobs = (
        Job(step="resolve", stage="resolve", runner="BUILDER", needs="[]", kept=(f"{target}/",)),
        Job(step="build", stage="build", runner="NODES", needs=f'["{name} resolve"]'),
        Job(step="test", stage="test", runner="NODES", needs=f'["{name} build"]'),
        Job(step="publish", stage="publish", runner="BUILDER", needs=f'["{name} test"]', is_for_all=True),
    )
    watched = [f"{path}/**/*" for path in ("recipes", "systems", target, folder)]
    return {
        "gitlab-ci.yml": gitlab(name, quoting.sh_word(os.fspath(folder)), head, STAGES, jobs, watched=watched),
        "ci.sh": filled(
            TEMPLATE.read_text(encoding="utf-8"),
            PURPOSE=environment.purpose,
            AGAIN=again,
            ENVIRONMENT_WORD=quoting.sh_word(os.fspath(target)),
            NAME_WORD=quoting.sh_word(repository_name(environment.recipe.name)),
            INPUTS=bash_words(inputs),
            TOP_WORD=quoting.sh_word(os.path.relpath(".", folder)),
            END=end_of_script(artifact=True),
        ),
    }


def _inputs(environment: Environment, recipe: str) -> list[str]:
    return [recipe, "--system", environment.system.name, "--uarch", environment.node.uarch]
