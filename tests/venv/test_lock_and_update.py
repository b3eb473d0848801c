"""Test creating an overlay again from its lock or record, and keeping the old overlay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import Cli, Write
from tests.support.overlays import BaseHere, clean_environment, install, project, run, seen, wheel
from tests.venv.conftest import Begun, record

LOCK = "v/.uenvtool/pylock.toml"


@pytest.fixture
def tmp_path(begun: Begun) -> Path:
    return begun.emptied()


@pytest.fixture
def here(here: BaseHere, wheels: Path, place: Path, done: Cli, begun: Begun) -> BaseHere:
    """A base with torch and shared; an overlay on it with frame."""

    def make() -> None:
        install(here.site, wheel(place.parent / "old", "shared", "1.0"))
        wheel(wheels, "shared", "1.0")
        wheel(wheels, "torch", "2.6.0")
        wheel(wheels, "frame", "1.0", requires=("torch>=2.6", "shared"))
        wheel(wheels, "more", "1.0", requires=("helping",))
        wheel(wheels, "helping", "1.0")
        done("venv", "v", "frame")

    begun.fill(make)
    return here


def versions(folder: str | Path) -> dict[str, str]:
    site = next(Path(folder).glob("lib/python3*/site-packages"))
    return dict(path.name.removesuffix(".dist-info").split("-") for path in site.glob("*.dist-info"))


def test_the_lock_is_a_pylock_with_the_bases_fingerprint(here: BaseHere) -> None:
    lock = tomlkit.parse(Path(LOCK).read_text()).unwrap()

    assert lock["lock-version"] == "1.0"
    assert [(each["name"], each["version"]) for each in lock["packages"]] == [("frame", "1.0")]
    assert lock["packages"][0]["wheels"][0]["hashes"]["sha256"]
    ours = lock["tool"]["uenvtool"]
    assert (ours["base"], ours["requests"]) == (record("v")["base"]["fingerprint"], ["frame"])


def test_the_same_overlay_comes_from_its_lock_and_another_base_is_told(
    here: BaseHere, done: Cli, wheels: Path, place: Path
) -> None:
    wheel(wheels, "frame", "2.0", requires=("torch>=2.6", "shared"))

    answer = done("venv", "w", "--from", LOCK)
    same = [Path(folder, ".uenvtool", name).read_text() for folder in "vw" for name in ("pylock.toml", "uenvtool.json")]
    install(here.site, wheel(place.parent / "old", "extra", "1.0"))
    elsewhere = done("venv", "x", "--from", LOCK)
    again = done("venv", "v", "--update")

    assert versions("w") == versions("x") == {"frame": "1.0"}
    assert same[0] == same[2]
    assert same[1] == same[3].replace("pylock.toml", "you")
    assert "another base" not in answer.stderr
    assert "was made for another base (stack)" in elsewhere.stderr
    assert "the base has changed since this overlay was made on the uenv stack (Python " in again.stderr


def test_a_wheel_that_is_not_the_one_of_the_lock_is_refused(
    here: BaseHere, cli: Cli, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_NO_CACHE", "1")  # which has the one of the lock
    wheel(wheels, "frame", "1.0", files={"frame/__init__.py": "changed = True\n"})

    answer = cli("venv", "w", "--from", LOCK)

    assert (answer.code, Path("w").exists()) == (4, False)
    assert "frame" in answer.stderr
    assert "do not install it unless you know why the file or the lock was changed" in answer.stderr


def test_a_lock_of_another_tool_leaves_to_the_base_what_the_base_has(
    here: BaseHere, done: Cli, wheels: Path, write: Write
) -> None:
    text = 'lock-version = "1.0"\ncreated-by = "other"\n'
    for name, version in (("torch", "2.6.0"), ("shared", "1.0"), ("frame", "1.0")):
        url = (wheels / f"{name}-{version}-py3-none-any.whl").as_uri()
        text += f'[[packages]]\nname = "{name}"\nversion = "{version}"\nwheels = [{{url = "{url}", hashes = {{}}}}]\n'

    done("venv", "w", "--from", write("pylock.other.toml", text))

    assert versions("w") == {"frame": "1.0"}


def test_packages_are_added_and_removed_and_what_is_there_stays(here: BaseHere, done: Cli, wheels: Path) -> None:
    """A removed package goes with what it alone brought."""
    wheel(wheels, "frame", "2.0")

    done("venv", "v", "more")
    added = versions("v")
    removed = done("venv", "v", "--remove", "more")

    assert added == {"frame": "1.0", "more": "1.0", "helping": "1.0"}
    assert versions("v") == {"frame": "1.0"}
    rows = [line.split()[:3] for line in removed.stdout.splitlines()[1:]]
    assert rows == [["helping", "1.0", "removed"], ["more", "1.0", "removed"]]
    assert [each["text"] for each in record("v")["requests"]] == ["frame"]
    assert [path.name for path in Path().iterdir()] == ["v"]


def test_an_update_takes_new_versions_and_keeps_the_old_overlay(here: BaseHere, done: Cli, wheels: Path) -> None:
    made = Path("v").stat().st_ino
    assert "no newer versions were found; v is unchanged" in done("venv", "v", "--update").stderr
    assert [path.stat().st_ino for path in Path().iterdir()] == [made]
    wheel(wheels, "frame", "2.0")

    done("venv", "v", "--update")

    assert versions("v") == {"frame": "2.0"}
    assert versions("v.previous") == {"frame": "1.0"}
    assert run(["v.previous/bin/python", "-c", "import frame"], clean_environment()).returncode == 0


def test_an_update_with_a_changed_file_drops_what_the_file_no_longer_has(
    here: BaseHere, done: Cli, write: Write
) -> None:
    write("req.txt", "frame\nhelping\n")
    done("venv", "w", "--update", "-r", "req.txt")  # made, as it is not there yet
    write("req.txt", "helping\n")

    done("venv", "w", "--update", "-r", "req.txt")

    assert versions("w") == {"helping": "1.0"}


def test_a_record_that_was_changed_by_hand_is_told(here: BaseHere, cli: Cli) -> None:
    file = Path("v/.uenvtool/uenvtool.json")
    good = file.read_text()
    request = good.replace('"text": "frame"', '"text": "frame\\n--index-url x"')
    override = good.replace('"overrides": []', '"overrides": ["a b"]')

    for bad in ("{", "[]", '{"format": 99}', request, override):
        file.write_text(bad)

        assert cli("venv", "v", "frame").code == 2, bad
        assert file.read_text() == bad


def test_it_is_shown_with_its_base_and_whether_that_is_here(here: BaseHere, done: Cli) -> None:
    text = done("show", "v").stdout
    data = json.loads(done("show", "v", "--json").stdout)
    changed = record("v")
    changed["base"]["folders"].append("/nonexistent")
    Path("v/.uenvtool/uenvtool.json").write_text(json.dumps(changed))

    assert f"base: stack, Python {here.version}" in text
    assert "frame" in text
    assert data["base_is_here"] is True
    assert {each["name"]: each["how"] for each in data["packages"]}["torch"] == "from base"
    assert "(not available" in done("show", "v").stdout
    assert json.loads(done("show", "v", "--json").stdout)["base_is_here"] is False


def test_an_editable_project_is_seen_before_the_base(here: BaseHere, done: Cli, place: Path) -> None:
    project(place / "proj", "shared", "5.0")

    done("venv", "v", "-e", "proj")

    code = (
        "import json, shared, importlib.metadata as m\n"
        "print(json.dumps({'v': shared.__version__, 'm': m.version('shared')}))"
    )
    found = seen(["v/bin/python", "-c", code], clean_environment(**here.environment))
    assert found == {"v": "5.0", "m": "5.0"}
