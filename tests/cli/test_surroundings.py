"""Test commands without a home or current directory: they work, or report the missing directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.kills import FROM_HERE
from tests.support.samples import sampled

COMMANDS = [
    "--version",
    "list",
    "show hello",
    "explain NCCL_NET",
    "schema recipe",
    "activate --system clariden",
    "build hello --system clariden --dry-run --no-concretize",
    f"validate {ROOT}/recipes/hello/recipe.yaml",
    "diff hello hello",
    "job --help",
]


def running(commands: list[str]) -> str:
    """A program of Python that runs command lines, and says their exit codes."""
    return f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
for gone in os.environ.get("GONE", "").split():
    os.rmdir(gone)
from uenvtool.cli import run
print([run(line.split()) for line in {commands!r}], file=sys.stderr)
"""


NO_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
"""Root without the right to read what the modes forbid."""


def answers(cwd: Path, code: str, **env: str) -> str:
    words = [*(NO_RIGHTS if os.geteuid() == 0 else []), sys.executable, "-P" if sys.version_info >= (3, 11) else "-B"]
    whole = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*words, "-c", code], cwd=cwd, env={**whole, **env}, capture_output=True, text=True, check=False
    )
    if "setpriv" in done.stderr:
        pytest.skip("needs setpriv and the right to give rights up: apt-get install util-linux")
    return done.stderr


@pytest.fixture
def forbidden(tmp_path: Path) -> Path:
    folder = tmp_path / "forbidden"
    folder.mkdir()
    folder.chmod(0)
    return folder


@pytest.mark.parametrize("kind", sampled(["forbidden", "file", "empty", "inside", "pipe", "loop", "missing"]))
def test_home_can_be_anything(kind: str, tmp_path: Path, forbidden: Path, place: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    value = {"empty": "", "inside": f"{forbidden}/home"}.get(kind, str(tmp_path / kind))

    assert answers(place, running(COMMANDS), HOME=value, XDG_CONFIG_HOME=value).endswith(f"{[0] * len(COMMANDS)}\n")


NEED_IT = [
    "venv v",
    "venv {there}/v --no-base six",
    "build hello --system clariden --no-concretize",
    "activate --write -o scripts",
    "container ngc-pytorch-25.06",
    "job --system clariden --account a --image u -o job.sh -- true",
    "new recipe mine --from hello",
]


def test_a_folder_that_is_gone_or_may_not_be_entered_is_told_where_it_is_needed(tmp_path: Path) -> None:
    commands = [command.format(there=tmp_path) for command in NEED_IT]
    (tmp_path / "gone").mkdir()
    (tmp_path / "here").mkdir()
    enters = f"import os; os.chdir({str(tmp_path / 'here')!r}); os.chmod('.', 0)\n"

    gone = answers(tmp_path / "gone", running(commands), GONE=str(tmp_path / "gone"))
    forbidden = answers(tmp_path, enters + running(commands[1:2]))

    assert gone.count("error: the current directory does not exist\nhint: change to") == len(commands), gone
    assert gone.endswith(f"{[2] * len(commands)}\n")
    told = f"error: no permission to enter the current directory, {tmp_path}/here\nhint: change to a directory that you"
    assert told in forbidden
    assert forbidden.endswith("[2]\n")
    assert not (tmp_path / "v").exists()


@pytest.mark.slow
@pytest.mark.parametrize("state", ["gone", "forbidden"])
def test_the_current_folder_can_be_gone_or_forbidden_where_it_is_not_needed(tmp_path: Path, state: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    does = {"gone": "os.rmdir(os.getcwd())", "forbidden": "os.chmod(os.curdir, 0)"}[state]
    begins = f"import os; os.chdir({str(here)!r}); {does}"

    assert answers(tmp_path, f"{begins}\n{running(COMMANDS)}").endswith(f"{[0] * len(COMMANDS)}\n")


def test_a_file_that_may_not_be_read_is_named_with_the_way_to_see_why(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "mine.yaml").chmod(0)

    told = answers(tmp_path, running(["validate mine.yaml"]))

    assert told.endswith("Path 'mine.yaml' is not readable\nhint: check its permissions: `ls -l`\n[2]\n")


def test_packages_of_the_current_folder_do_not_stand_before_the_tools_own(place: Path) -> None:
    """An empty entry of PYTHONPATH, which is the current folder, is what `PYTHONPATH=$PYTHONPATH:/x` makes."""
    for name in ("typer", "yaml", "json", "shutil"):
        (place / f"{name}.py").write_text("open('ran', 'w')\n")
    script = place.parent / "uenvtool"
    script.write_text(FROM_HERE)

    done = subprocess.run(
        [sys.executable, script, "list", "--json"],
        env={**os.environ, "PYTHONPATH": ":/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert not (place / "ran").exists()
