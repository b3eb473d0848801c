"""Test that a dry run uses the metadata of wheels, builds nothing, and lists the packages to build."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BUILD_SYSTEM, project, wheel

BUILT = "has no wheel and would be built"
UNKNOWN = f"{BUILT}; its requirements are known only after the build"


@pytest.fixture
def sources(no_base: None, wheels: Path, place: Path) -> Path:
    """Packages with and without wheels; the backend of each source leaves a mark where it is started."""
    mark = place / "built"
    wheel(wheels, "uses", "1.0", requires=("older", "only"))
    wheel(wheels, "older", "1.0")
    for name, version in (("only", "1.2"), ("older", "2.0")):
        folder = place / "sources" / f"{name}-{version}"
        project(folder, name, version, f'[project]\nname = "{name}"\ndynamic = ["version"]\n')
        (folder / "backend.py").write_text(f"open({str(mark)!r}, 'w')\n")
        (folder / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        with tarfile.open(wheels / f"{name}-{version}.tar.gz", "w:gz") as archive:
            archive.add(folder, folder.name)
    project(place / "static", "static")
    (place / "nameless").mkdir()
    (place / "nameless" / "pyproject.toml").write_text(BUILD_SYSTEM)
    (place / "nameless" / "backend.py").write_text(f"open({str(mark)!r}, 'w')\n")
    return mark


@pytest.mark.parametrize(
    ("words", "rows", "notes"),
    [
        ("uses", {"uses": "1.0", "older": "1.0", "only": "1.2"}, [f"only 1.2 {UNKNOWN}"]),
        (
            "older only --no-build-isolation only",
            {"older": "2.0", "only": "1.2"},
            [f"older 2.0 {UNKNOWN}", f"only 1.2 {UNKNOWN}"],
        ),
        (
            "-e {place}/sources/only-1.2 {place}/static",
            {"only": "?", "static": "?"},
            [f"only ? {UNKNOWN}", f"static ? {BUILT}"],
        ),
        ("{wheels}/only-1.2.tar.gz", {"only": "1.2"}, [f"only 1.2 {UNKNOWN}"]),
    ],
)
def test_what_would_be_built_is_named_and_not_built(
    words: str,
    rows: dict[str, str],
    notes: list[str],
    sources: Path,
    place: Path,
    wheels: Path,
    done: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "tar.gz" in words:
        monkeypatch.setenv("PIP_NO_BINARY", "only")
    answer = done("venv", "v", *words.format(place=place, wheels=wheels).split(), "--no-base", "--dry-run", "--json")

    found = json.loads(answer.stdout)
    assert {row["name"]: row["version"] for row in found["packages"]} == rows
    assert [note for note in found["notes"] if BUILT in note] == notes
    assert not sources.exists()
    assert not Path("v").exists()


@pytest.mark.parametrize("words", ["-e {place}/nameless", "{place}/nameless", "older -r all.txt"])
def test_what_nothing_is_known_of_before_it_is_built_is_refused(
    words: str, sources: Path, place: Path, cli: Cli
) -> None:
    (place / "all.txt").write_text("--no-binary :all:\nuses\n")
    answer = cli("venv", "v", *words.format(place=place).split(), "--no-base", "--dry-run")

    assert answer.code == 1
    assert "without --dry-run" in answer.stderr
    assert not sources.exists()
