"""Test overlays at paths with any characters, and that existing files at the path are not replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, clean_environment, run, wheel
from tests.support.samples import sampled


@pytest.mark.parametrize(
    "name",
    sampled(["zweiß 'µ' 雪", "new\nline", "-v", 'say "hi"', "a b", "$HOME", "a;b|c&d", "back\\slash", "it's"], keep=3),
)
def test_a_path_of_any_letters_works(here: BaseHere, done: Cli, wheels: Path, name: str) -> None:
    files = {"speak/__init__.py": "def main(): print('spoken')\n"}
    wheel(wheels, "speak", "1.0", files=files, scripts={"speak": "speak:main"})

    done("venv", f"./{name}", "speak")

    for words, env in (
        ([f"./{name}/bin/speak"], clean_environment(**here.environment)),
        ([f"./{name}/bin/python", "-c", "import speak, torch; speak.main()"], clean_environment(**here.environment)),
        (["bash", "-c", 'source "$1/bin/activate" && speak && deactivate', "-", f"./{name}"], clean_environment()),
    ):
        completed = run(words, env)
        assert completed.stdout == "spoken\n", completed.stderr


def test_a_symlink_is_refused_and_left(here: BaseHere, cli: Cli, place: Path) -> None:
    (place / "real").mkdir()
    (place / "v").symlink_to("real")

    answer = cli("venv", "v")

    assert answer.code == 2
    assert "'v' is a symlink" in answer.stderr
    assert sorted(path.name for path in place.rglob("*")) == ["real", "v"]


def test_a_word_that_is_a_path_a_folder_or_no_package_is_where_the_overlay_lies(
    here: BaseHere, done: Cli, wheels: Path
) -> None:
    """A package's name alone is asked about, see tests/refusals/venv.yaml."""
    wheel(wheels, "other", "1.0")

    for word in ("./other", "other", "nopackage"):
        done("venv", word)
        assert Path(word, "pyvenv.cfg").is_file()
