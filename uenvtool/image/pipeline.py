"""Writes the pipeline of a uenv: resolved and compared, built on nodes, tested, marked, published."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
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
from uenvtool.env.environment import Environment, named_environment
from uenvtool.env.next_steps import usual_folder
from uenvtool.image.cache import repository_name
from uenvtool.knowledge.options import RecipeNames, SystemName, Uarch

TEMPLATE = Path(__file__).parent / "ci.sh"
STAGES = ("resolve", "build", "test", "publish")


@value_class
class PipelineRequest:
    """A request for the pipeline of a uenv, which has the environments of one recipe or several."""

    recipes: RecipeNames
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("-o", metavar="DIR", help="Where to write; default: pipelines/RECIPE/SYSTEM-UARCH.")
    ] = None
    check: Annotated[bool, Option("--check", help="Exit 1 with a diff if DIR is not what its inputs give.")] = False
    force: Annotated[bool, Option("--force", help="Replace uenvtool's files that were changed.")] = False


def write_pipeline(request: PipelineRequest) -> Result:
    """Write the pipeline of recipes for a system, or compare it with what is there.

    Raises BadInput for a recipe or folder that is none; AnswerIsNo if a check finds differences.
    """
    environments = [named_environment(name, request.system, request.uarch) for name in request.recipes]
    folder = request.output or usual_folder(environments[0], "pipelines")
    if os.path.isabs(folder) or ".." in folder.parts:
        raise BadInput(f"{folder} is not in the repository", hint="name a folder below this one, where jobs find it")
    texts = render_pipeline(environments, request.recipes, folder)
    if request.check:
        files.check_generated(folder, texts, again=_again(environments, request.recipes, folder))
        return Result(data={"folder": str(folder), "files": list(texts)}, notes=(f"{folder} is as its inputs give it",))
    with files.locked(folder):
        files.refuse_foreign(folder, texts, force=request.force)
        files.write_generated(folder, texts)
    return Result(
        data={"folder": str(folder), "files": list(texts)},
        text="\n".join(str(folder / name) for name in texts),
        next=(f"write into .gitlab-ci.yml:\n  include: [{{local: {folder}/gitlab-ci.yml}}]",),
    )


def render_pipeline(environments: Sequence[Environment], recipes: Sequence[str], folder: Path) -> dict[str, str]:
    """Return the files of a pipeline that lies in a folder of the repository. recipes: as the user names them."""
    first, where = environments[0], _where(environments)
    targets = [os.fspath(usual_folder(environment)) for environment in environments]
    again = quoting.comment(_again(environments, recipes, folder))
    place = quoting.comment(os.fspath(folder))
    name = f"{first.recipe.name} {usual_folder(first).name}"
    purpose = " with ".join([first.purpose, *(other.recipe.name for other in environments[1:])])
    head = [
        f"The pipeline of the uenv {purpose}",
        f"Made by uenvtool, again: {again}",
        f"Use it from .gitlab-ci.yml with those of other uenvs: include: [{{local: {place}/gitlab-ci.yml}}, ...]",
        "Variables of the project: those that ci.sh names, and the tags of two runners: BUILDER has Spack and skopeo,",
        "NODES is a node, or starts jobs there.",
    ]
    jobs = (
        Job(step="resolve", stage="resolve", runner="BUILDER", needs="[]", kept=[f"{target}/" for target in targets]),
        Job(step="build", stage="build", runner="NODES", needs=f'["{name} resolve"]'),
        Job(step="test", stage="test", runner="NODES", needs=f'["{name} build"]'),
        Job(step="publish", stage="publish", runner="BUILDER", needs=f'["{name} test"]', is_for_all=True),
    )
    watched = [f"{path}/**/*" for path in ("recipes", "systems", *targets, folder)]
    return {
        "gitlab-ci.yml": gitlab(name, quoting.sh_word(os.fspath(folder)), head, STAGES, jobs, watched=watched),
        "ci.sh": filled(
            TEMPLATE.read_text(encoding="utf-8"),
            PURPOSE=purpose,
            AGAIN=again,
            ENVIRONMENTS=bash_words(targets),
            RECIPES=bash_words(recipes),
            WHERE=bash_words(where),
            NAME_WORD=quoting.sh_word(repository_name(first.recipe.name)),
            TOP_WORD=quoting.sh_word(os.path.relpath(".", folder)),
            END=end_of_script(artifact=True),
        ),
    }


def _again(environments: Sequence[Environment], recipes: Sequence[str], folder: Path) -> str:
    """Return the command that writes the pipeline into the same folder again."""
    return shlex.join(["uenvtool", "image", "pipeline", *recipes, *_where(environments), "-o", os.fspath(folder)])


def _where(environments: Sequence[Environment]) -> list[str]:
    return ["--system", environments[0].system.name, "--uarch", environments[0].node.uarch]
