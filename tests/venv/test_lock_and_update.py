"""An overlay is made again from its lock or its record, and the old one is kept for going back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import Cli, Loaded, Write
from tests.support.overlays import BaseHere, clean_environment, install, project, run, seen, wheel


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    found = loaded("pythonpath")
    install(found.site, wheel(place / "old", "torch", "2.6.0a0+d883142"), wheel(place / "old", "shared", "1.0"))
    wheel(wheels, "shared", "1.0")
    wheel(wheels, "torch", "2.6.0")
    wheel(wheels, "frame", "1.0", requires=("torch>=2.6", "shared"))
    return found


def versions(folder: str | Path) -> dict[str, str]:
    site = next(Path(folder).glob("lib/python3*/site-packages"))
    return dict(path.name.removesuffix(".dist-info").split("-") for path in site.glob("*.dist-info"))


def test_the_lock_is_a_pylock_with_the_bases_fingerprint(here: BaseHere, cli: Cli) -> None:
    cli("venv", "v", "frame")

    lock = tomlkit.parse(Path("v/.uenvtool/pylock.toml").read_text()).unwrap()
    record = json.loads(Path("v/.uenvtool/uenvtool.json").read_text())

    assert lock["lock-version"] == "1.0"
    assert [(each["name"], each["version"]) for each in lock["packages"]] == [("frame", "1.0")]
    assert lock["packages"][0]["wheels"][0]["hashes"]["sha256"]
    assert lock["tool"]["uenvtool"]["base"] == record["base"]["fingerprint"]
    assert lock["tool"]["uenvtool"]["requests"] == ["frame"]


def test_the_same_overlay_comes_from_its_lock(here: BaseHere, cli: Cli, wheels: Path) -> None:
    cli("venv", "v", "frame")
    wheel(wheels, "frame", "2.0", requires=("torch>=2.6", "shared"))

    answer = cli("venv", "w", "--from", "v/.uenvtool/pylock.toml")

    assert answer.code == 0, answer.stderr
    assert "another base" not in answer.stderr
    assert versions("w") == {"frame": "1.0"}
    for name in ("pylock.toml", "uenvtool.json"):
        assert Path("w/.uenvtool", name).read_text().replace("pylock.toml", "you") == Path(
            "v/.uenvtool", name
        ).read_text().replace("pylock.toml", "you")


def test_a_lock_used_on_another_base_says_so(here: BaseHere, cli: Cli, place: Path) -> None:
    cli("venv", "v", "frame")
    install(here.site, wheel(place / "old", "extra", "1.0"))

    answer = cli("venv", "w", "--from", "v/.uenvtool/pylock.toml")

    assert answer.code == 0, answer.stderr
    assert "was made for another base (stack)" in answer.stderr


def test_a_lock_for_a_newer_python_and_a_changed_wheel_are_refused(here: BaseHere, cli: Cli, wheels: Path) -> None:
    cli("venv", "v", "frame")
    lock = Path("v/.uenvtool/pylock.toml").read_text()
    Path("pylock.newer.toml").write_text(
        lock.replace(f'requires-python = ">={here.version}', 'requires-python = ">=3.99')
    )
    Path("pylock.toml").write_text(lock)
    wheel(wheels, "frame", "1.0", files={"frame/__init__.py": "changed = True\n"})

    newer = cli("venv", "w", "--from", "pylock.newer.toml")
    changed = cli("venv", "w", "--from", "pylock.toml")

    assert (newer.code, changed.code) == (1, 4), newer.stderr
    assert "the lock is for another Python" in newer.stderr
    assert "the file that came is not the one of the lock" in changed.stderr
    assert "frame" in changed.stderr
    assert not Path("w").exists()


def test_a_lock_of_another_tool_leaves_to_the_base_what_the_base_has(
    here: BaseHere, cli: Cli, wheels: Path, write: Write
) -> None:
    def entry(name: str, version: str) -> str:
        place = (wheels / f"{name}-{version}-py3-none-any.whl").as_uri()
        return (
            f'[[packages]]\nname = "{name}"\nversion = "{version}"\nwheels = [{{ url = "{place}", hashes = {{}} }}]\n'
        )

    text = 'lock-version = "1.0"\ncreated-by = "other"\n' + "".join(
        entry(*each) for each in (("torch", "2.6.0"), ("shared", "1.0"), ("frame", "1.0"))
    )

    answer = cli("venv", "w", "--from", write("pylock.other.toml", text))

    assert answer.code == 0, answer.stderr
    assert versions("w") == {"frame": "1.0"}


def test_packages_are_added_to_an_overlay_and_what_is_there_stays(here: BaseHere, cli: Cli, wheels: Path) -> None:
    cli("venv", "v", "frame")
    wheel(wheels, "frame", "2.0")
    wheel(wheels, "more", "1.0")

    answer = cli("venv", "v", "more")

    assert answer.code == 0, answer.stderr
    assert versions("v") == {"frame": "1.0", "more": "1.0"}
    assert sorted(path.name for path in Path().iterdir()) == ["old", "v"]


def test_an_update_takes_new_versions_and_keeps_the_old_overlay(here: BaseHere, cli: Cli, wheels: Path) -> None:
    cli("venv", "v", "frame")
    wheel(wheels, "frame", "2.0")

    answer = cli("venv", "v", "--update")

    assert answer.code == 0, answer.stderr
    assert versions("v") == {"frame": "2.0"}
    assert versions("v.previous") == {"frame": "1.0"}
    assert run(["v.previous/bin/python", "-c", "import frame"], clean_environment()).returncode == 0


def test_an_update_with_a_changed_file_drops_what_the_file_no_longer_has(
    here: BaseHere, cli: Cli, wheels: Path, write: Write
) -> None:
    wheel(wheels, "more", "1.0")
    write("req.txt", "frame\nmore\n")
    assert cli("venv", "v", "--update", "-r", "req.txt").code == 0  # made, as it is not there yet
    write("req.txt", "more\n")

    answer = cli("venv", "v", "--update", "-r", "req.txt")

    assert answer.code == 0, answer.stderr
    assert versions("v") == {"more": "1.0"}


def test_a_record_that_was_changed_by_hand_is_told(here: BaseHere, cli: Cli) -> None:
    cli("venv", "v", "frame")
    record = Path("v/.uenvtool/uenvtool.json")
    good = record.read_text()

    for bad in ("{", "[]", '{"format": 99}', good.replace('"text": "frame"', '"text": "frame\\n--index-url x"'),
                good.replace('"overrides": []', '"overrides": ["a b"]')):  # fmt: skip
        record.write_text(bad)
        answer = cli("venv", "v", "frame")

        assert answer.code == 2, (bad, answer.stderr)
        assert record.read_text() == bad


def test_info_shows_base_packages_and_settings(here: BaseHere, cli: Cli) -> None:
    cli("venv", "v", "frame")

    text = cli("show", "v")
    data = json.loads(cli("show", "v", "--json").stdout)

    assert text.code == 0, text.stderr
    assert f"base: stack, Python {here.version}" in text.stdout
    assert "frame" in text.stdout
    assert data["base_is_here"] is True
    assert {each["name"]: each["how"] for each in data["packages"]}["torch"] == "from base"


def test_info_says_that_the_base_is_not_here(here: BaseHere, cli: Cli) -> None:
    cli("venv", "v", "frame")
    record = Path("v/.uenvtool/uenvtool.json")
    data = json.loads(record.read_text())
    data["base"]["folders"].append("/nonexistent")
    record.write_text(json.dumps(data))

    assert "(not here now" in cli("show", "v").stdout
    assert json.loads(cli("show", "v", "--json").stdout)["base_is_here"] is False


def test_an_editable_project_is_seen_before_the_base(here: BaseHere, cli: Cli, place: Path) -> None:
    project(place / "proj", "shared", "5.0")

    answer = cli("venv", "v", "frame", "-e", "proj")

    assert answer.code == 0, answer.stderr
    code = (
        "import json, shared, importlib.metadata as m\n"
        "print(json.dumps({'v': shared.__version__, 'm': m.version('shared')}))"
    )
    found = seen(["v/bin/python", "-c", code], clean_environment(**here.environment))
    assert found == {"v": "5.0", "m": "5.0"}
