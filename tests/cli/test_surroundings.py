"""Commands that need no home and no current folder work without; what does need one says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
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
ALL = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
for gone in os.environ.get("GONE", "").split():
    os.rmdir(gone)
from uenvtool.cli import run
print([run(line.split()) for line in {COMMANDS!r}], file=sys.stderr)
"""
NO_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
"""Root without the right to read what the modes forbid."""


def answers(cwd: Path, code: str = ALL, **env: str) -> str:
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

    assert answers(place, HOME=value, XDG_CONFIG_HOME=value).endswith(f"{[0] * len(COMMANDS)}\n")


@pytest.mark.slow
def test_the_current_folder_can_be_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    assert answers(tmp_path / "gone", GONE=str(tmp_path / "gone")).endswith(f"{[0] * len(COMMANDS)}\n")


@pytest.mark.slow
def test_the_current_folder_can_be_forbidden(tmp_path: Path, forbidden: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path / 'here')!r}); os.chmod('.', 0)\n{ALL}"
    (tmp_path / "here").mkdir()

    assert answers(tmp_path, code).endswith(f"{[0] * len(COMMANDS)}\n")


NEED_IT = [
    "venv v",
    "venv {there}/v --no-base six",
    "build hello --system clariden --no-concretize",
    "activate --write -o scripts",
    "container ngc-pytorch-25.06",
    "job --system clariden --account a --image u -o job.sh -- true",
    "new recipe mine --from hello",
]


def test_a_command_that_needs_the_current_folder_says_that_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code = ALL.replace(repr(COMMANDS), repr([command.format(there=tmp_path) for command in NEED_IT]))

    told = answers(tmp_path / "gone", code, GONE=str(tmp_path / "gone"))

    assert told.count("error: the current folder is gone\nhint: go to one that exists") == len(NEED_IT), told
    assert told.endswith(f"{[2] * len(NEED_IT)}\n")
    assert not (tmp_path / "v").exists()


def test_an_overlay_is_not_begun_in_a_folder_that_may_not_be_entered(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    code = ALL.replace(repr(COMMANDS), repr([f"venv {tmp_path}/v --no-base six"]))

    told = answers(tmp_path, f"import os; os.chdir({str(tmp_path / 'here')!r}); os.chmod('.', 0)\n{code}")

    assert f"error: you may not enter the current folder, {tmp_path}/here\nhint: go to one that you may read" in told
    assert told.endswith("[2]\n")
    assert not (tmp_path / "v").exists()


def test_a_file_that_may_not_be_read_is_named_with_the_way_to_see_why(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "mine.yaml").chmod(0)

    told = answers(tmp_path, ALL.replace(repr(COMMANDS), repr(["validate mine.yaml"])))

    assert "Path 'mine.yaml' is not readable\nhint: check its permissions: `ls -l`" in told
    assert told.endswith("[2]\n")
