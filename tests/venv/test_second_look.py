"""What a researcher met: no base, a package too much, an image that is old, a word in the wrong place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded, Write
from tests.support.needs import need
from tests.support.overlays import BaseHere, inside, install, project, wheel


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    wheel(wheels, "small", "1.0", requires=("helping",))
    wheel(wheels, "helping", "1.0", requires=("torch>=2",))
    wheel(wheels, "other", "1.0")
    return found


class TestNoBase:
    """No torch is installed where one of the system was meant."""

    @pytest.fixture
    def torch(self, no_base: None, wheels: Path) -> None:
        wheel(wheels, "torch", "2.9.0")
        wheel(wheels, "light", "1.0", requires=("torch",))

    def test_nothing_loaded_on_a_uenv_system_is_an_answer(
        self, torch: None, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLUSTER_NAME", "clariden")

        refused = cli("venv", "v", "light")
        plain = cli("venv", "v", "light", "--no-base")
        again = cli("venv", "v", "light")

        assert refused.code == 1
        assert "error: no torch lies under this: nothing is loaded on clariden" in refused.stderr
        assert "uenv start IMAGE --view=VIEW" in refused.stderr
        assert "--no-base" in refused.stderr
        assert plain.code == 0, plain.stderr
        assert again.code == 0, again.stderr
        assert inside("v") == {"light", "torch"}

    def test_on_no_known_system_a_plain_environment_is_made_and_said_first(self, torch: None, cli: Cli) -> None:
        answer = cli("venv", "v", "light")

        assert answer.code == 0, answer.stderr
        warnings = [line for line in answer.stderr.splitlines() if line.startswith("warning:")]
        assert "no base is loaded here: this is a plain environment" in warnings[0]
        assert "the base's torch" not in answer.stderr

    def test_a_container_without_torch_gets_none_of_the_index(
        self, torch: None, wheels: Path, loaded: Loaded, cli: Cli
    ) -> None:
        loaded("container")

        wheel(wheels, "dim", "1.0", requires=("torch",))

        refused = cli("venv", "v", "light", "dim")
        accepted = cli("venv", "v", "light", "--override", "torch")

        assert refused.code == 1
        assert "no torch lies under this: the container /images/pytorch.sif (Python " in refused.stderr
        assert "has none, and dim, light would bring torch 2.9.0 from the package index" in refused.stderr
        assert not Path("v").exists() or inside("v") == {"light", "torch"}
        assert accepted.code == 0, accepted.stderr


@pytest.mark.slow
def test_an_overlay_that_is_made_again_on_another_base_says_so(here: BaseHere, cli: Cli, place: Path) -> None:
    first = cli("venv", "v", "other")
    same = cli("venv", "v", "small")
    install(here.site, wheel(place.parent / "old", "more", "1.0"))

    answer = cli("venv", "v", "--update")

    assert answer.code == 0, answer.stderr
    assert "the base has changed since this overlay was made on stack" in answer.stderr
    assert "has changed" not in first.stderr + same.stderr


class TestRemove:
    """--remove takes a package away, with what only it brought."""

    def test_a_removed_package_goes_with_what_only_it_brought(self, here: BaseHere, cli: Cli) -> None:
        cli("venv", "v", "small", "other")

        answer = cli("venv", "v", "--remove", "small")

        assert answer.code == 0, answer.stderr
        assert inside("v") == {"other"}
        rows = [line.split()[:3] for line in answer.stdout.splitlines()[1:]]
        assert rows == [["helping", "1.0", "removed"], ["small", "1.0", "removed"]]
        assert [each["text"] for each in json.loads(Path("v/.uenvtool/uenvtool.json").read_text())["requests"]] == [
            "other"
        ]

    def test_what_another_one_brought_is_not_removed_and_who_asks_is_said(self, here: BaseHere, cli: Cli) -> None:
        cli("venv", "v", "small")

        helping = cli("venv", "v", "--remove", "helping")
        base = cli("venv", "v", "--remove", "torch")
        unknown = cli("venv", "v", "--remove", "nothing")

        assert [helping.code, base.code, unknown.code] == [1, 1, 1]
        assert "helping cannot be removed: small asks for it" in helping.stderr
        assert "torch is the base's" in base.stderr
        assert "nothing is not in this overlay" in unknown.stderr
        assert inside("v") == {"small", "helping"}


class TestImage:
    """An image that is older than its overlay is named as such."""

    @pytest.fixture(autouse=True)
    def programs(self) -> None:
        need("mksquashfs", "unsquashfs")

    def test_it_is_said_by_the_run_and_by_info_until_it_is_packed_again(self, here: BaseHere, cli: Cli) -> None:
        fresh = cli("venv", "hx", "small", "--squash", "images/of-hx.squashfs")
        same = cli("show", "hx")

        added = cli("venv", "hx", "other")
        of_overlay = cli("show", "hx")
        of_image = cli("show", "images/of-hx.squashfs")
        command = "uenvtool venv hx --squash images/of-hx.squashfs"
        packed = cli(*command.split()[1:])
        after = cli("show", "hx")

        assert fresh.code == added.code == packed.code == 0, fresh.stderr + added.stderr + packed.stderr
        for answer in (added, of_overlay):
            assert f"pack it again with `{command}`" in answer.stderr
            assert "images/of-hx.squashfs is older than" in answer.stderr
        assert "older" not in same.stderr + after.stderr
        assert of_image.code == 0

    def test_an_image_beside_its_overlay_says_it_itself(self, here: BaseHere, cli: Cli) -> None:
        cli("venv", "hx", "small", "--squash")
        before = cli("show", "hx.squashfs")
        cli("venv", "hx", "other")

        answer = cli("show", "hx.squashfs")

        assert "older" not in before.stderr
        assert "this is older than hx: pack it again with `uenvtool venv hx --squash`" in answer.stderr

    def test_an_environment_of_another_tool_is_used_where_it_was_packed(
        self, loaded: Loaded, cli: Cli, write: Write
    ) -> None:
        loaded("container")
        write("env/pyvenv.cfg", "home = /usr/bin\n")

        for answer in (cli("venv", "env", "--squash"), cli("show", "env.squashfs")):
            assert answer.code == 0, answer.stderr
            assert "/images/pytorch.sif /user-tools/bin/python script.py" in answer.stderr
            assert "uenv start" not in answer.stderr  # its Python is not there outside of the container

    def test_an_editable_project_in_an_image_has_to_be_there(self, here: BaseHere, cli: Cli, place: Path) -> None:
        project(place / "proj", "mine")

        answer = cli("venv", "v", "-e", "proj", "--squash")
        told = cli("show", "v.squashfs")

        assert answer.code == 0, answer.stderr
        for each in (answer, told):
            assert f"{place}/proj is editable: that folder has to be there wherever the image is used" in each.stderr


class TestTable:
    """What changed stands alone; the run says what the dry run said."""

    def test_a_small_addition_lists_itself_alone(self, here: BaseHere, cli: Cli) -> None:
        cli("venv", "v", "small")

        answer = cli("venv", "v", "other")
        every = cli("venv", "v", "other", "--verbose")

        assert [line.split()[0] for line in answer.stdout.splitlines()] == ["package", "other"]
        assert "not listed: 2 as before, 1 of the base (--verbose lists them)" in answer.stderr
        assert {line.split()[0] for line in every.stdout.splitlines()} == {
            "package",
            "helping",
            "other",
            "small",
            "torch",
        }

    def test_a_dry_run_says_what_the_run_says_and_makes_nothing(
        self, here: BaseHere, cli: Cli, wheels: Path, place: Path
    ) -> None:
        for name in ("numpy", "viewer", "files"):
            web = [f"webclient ; extra == '{extra}'" for extra in ("full", "http")]
            requires = ["numpy"] if name == "viewer" else web if name == "files" else []
            extras = ("full", "http") if name == "files" else ()
            install(here.site, wheel(place.parent / "old", name, "1.0", requires=requires, extras=extras))
        wheel(wheels, "numpy", "1.5")
        wheel(wheels, "webclient", "1.0")
        wheel(wheels, "loader", "1.0", requires=("files[http]", "torch", "gone ; python_version < '3'"))
        words = ("venv", "v", "small", "loader", "numpy>=1.2", "--json")

        dry = json.loads(cli(*words, "--dry-run").stdout)
        assert not Path("v").exists()
        run = json.loads(cli(*words).stdout)

        assert dry["packages"] == run["packages"]
        assert {row["name"]: row["change"] for row in run["packages"]} == {
            "files": "same",
            "helping": "new",
            "loader": "new",
            "numpy": "replaced",
            "small": "new",
            "torch": "same",
            "webclient": "new",
        }


class TestWords:
    """A word in the wrong place is asked about."""

    def test_a_package_as_the_only_word_is_asked_about(self, here: BaseHere, cli: Cli) -> None:
        asked = cli("venv", "other")
        folder = cli("venv", "./other")
        existing = cli("venv", "other")
        empty = cli("venv", "nopackage")

        assert asked.code == 2
        assert "did you mean `uenvtool venv .venv other`?" in asked.stderr
        assert [folder.code, existing.code, empty.code] == [0, 0, 0], folder.stderr + existing.stderr + empty.stderr
