"""Test that every code block of the README and docs/ runs unchanged, or is in a table of exceptions with a reason."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import Cli, Write
from tests.docs.blocks import Block, read_blocks
from tests.docs.world import FAILED, World, made
from tests.support import peers
from tests.support.project import REAL_HOME
from tests.support.slurm import Slurm, running_slurm

BLOCKS = read_blocks()
NOT_RUN = {
    "README.md: tools/test": "it runs these tests; .ci/run runs it as a newcomer does",
    "docs/images.md: sbatch -N 4 --exclusive --wrap \\": "hours",
}
"""The blocks that no test runs, with the reason, such as a GPU, a Cray system, the internet or hours of time."""

NEEDS_INDEX = {name for name in (block.name for block in BLOCKS) if "pip install" in name or "tools/install" in name}
"""The blocks that install packages from the index of the user's pip."""


def marks(block: Block) -> list[pytest.MarkDecorator]:
    """Return the marks of a block. Blocks of the README and a first job always run, and others only with --slow."""
    is_quick = block.file == "README.md" or block.name == "docs/network.md: #!/bin/bash"
    return [] if is_quick and block.name not in NEEDS_INDEX else [pytest.mark.slow]


def named(*languages: str, jobs: bool = False) -> list[pytest.param]:  # type: ignore[valid-type]
    """Return the blocks of some languages as parameters."""
    return [
        pytest.param(block, id=block.name, marks=marks(block))
        for block in BLOCKS
        if block.language in languages and block.is_job == jobs and block.name not in NOT_RUN
    ]


def test_every_block_that_is_not_run_is_there_and_has_a_reason() -> None:
    assert set(NOT_RUN) <= {block.name for block in BLOCKS}
    assert all(NOT_RUN.values())


def test_every_block_says_what_it_is() -> None:
    known = {"sh", "console", "yaml", "python", "text"}  # text: nothing to run

    assert [f"{block.file}:{block.line}" for block in BLOCKS if block.language not in known] == []


def test_no_two_blocks_have_one_name() -> None:
    names = [block.name for block in BLOCKS]

    assert sorted(set(names)) == sorted(names)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, mount_points: tuple[Path, ...]) -> World:
    return made(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    plugin = peers.uenv_plugin()
    with running_slurm(tmp_path_factory.mktemp("slurm"), plugin=plugin) as found:
        yield found


@pytest.mark.real
@pytest.mark.xdist_group("slurm")  # a machine has only one set of mount points
class TestShell:
    @pytest.mark.parametrize("block", named("sh"))
    def test_the_lines_run(self, world: World, block: Block) -> None:
        if "uenv start" in block.text:
            assert FAILED not in world.type(block.text)
        else:
            ran = world.run(block.text, **(OWN_INDEX if block.name in NEEDS_INDEX else {}))
            assert ran.returncode == 0, ran.stderr

    @pytest.mark.parametrize("block", named("console"))
    def test_a_session_shows_what_it_is_said_to_show(self, world: World, block: Block) -> None:
        for command, shown in sessions(block.text):
            ran = world.run(command)
            assert matches(shown, ran.stdout + ran.stderr), ran.stdout + ran.stderr


@pytest.mark.real
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("block", named("sh", jobs=True))
def test_a_job_runs_and_all_its_ranks_meet(world: World, slurm: Slurm, block: Block) -> None:
    script = block.text if block.text.startswith("#!") else f"#!/bin/bash\n{block.text}"

    code, output = world.submit(slurm, script)

    assert code == 0, output
    if "train.py" in block.text:
        ranks = re.findall(r"^rank (\d+) of (\d+) met", output, re.MULTILINE)
        assert ranks, output
        assert sorted(int(rank) for rank, _ in ranks) == list(range(int(ranks[0][1]))), output
        nodes, tasks = (re.search(rf"--{name}=(\d+)", block.text) for name in ("nodes", "ntasks-per-node"))
        assert int(ranks[0][1]) == int(nodes[1] if nodes else 1) * int(tasks[1] if tasks else 1)


OWN_INDEX = {
    **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))},
    "PIP_NO_INDEX": "0",
    "PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE", str(REAL_HOME / ".config" / "pip" / "pip.conf")),
}
KINDS = {
    "from": "containers",
    "site": "systems",
    "groups": "recipes",
    "couplings": "recipes",
    "extends": "recipes",
    "rules": "rules",
    "findings": "findings",
    "words": "findings",
    "variables": "tuning",
    "sets": "tuning",
    "guards": "tuning",
    "sources": "tuning",
    "fabric": "systems",
}
"""The directory of a file, by a key. The first key that is in the file decides, because systems also have `extends`."""
REST = {"recipes": {"extends": "pytorch-2.6", "description": "Mine."}, "tuning": {"description": "Mine."}}
"""The text that completes a part of a file."""


@pytest.mark.parametrize("block", named("yaml"))
def test_yaml_is_a_file_that_the_tool_accepts(cli: Cli, write: Write, block: Block) -> None:
    keys = yaml.safe_load(block.text)
    kind = next(folder for key, folder in KINDS.items() if key in keys)
    own_folder = {"recipes": "recipes/mine/recipe.yaml", "containers": "recipes/mine/container.yaml"}
    name = own_folder.get(kind, f"{kind}/mine.yaml")
    rest = "".join(f"{key}: {value}\n" for key, value in REST.get(kind, {}).items() if key not in keys)

    answer = cli("validate", write(name, rest + block.text))

    assert answer.code == 0, answer.stderr


@pytest.mark.parametrize("block", named("python"))
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.name, "exec")


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Return the commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def matches(shown: str, output: str) -> bool:
    """Return whether the output matches the block, in which "..." is any lines and wrapped lines are one line."""
    pieces = re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    pattern = r"[\s\S]*".join(r"\s+".join(re.escape(word) for word in piece.split()) for piece in pieces)
    return re.fullmatch(rf"\s*{pattern}\s*", output) is not None
