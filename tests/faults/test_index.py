"""Test a hostile index with wheels, sources and locks: nothing is written outside of the overlay."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults import CASES
from tests.fuzz.mutation import damaged_lines
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.overlays import wheel
from tests.support.samples import sampled
from tests.support.trees import snapshot
from tests.support.web import served

Look = Callable[[], dict[str, object]]
NAMES = ["../../../evil", "../../../../../../../../../../tmp/uenvtool-evil", "/tmp/uenvtool-evil", "bin/../../evil"]
FILES = [*NAMES, "pyvenv.cfg", "../../../pyvenv.cfg", "x-1.0.data/data/bin/python", "x-1.0.data/data/pyvenv.cfg"]
FILES += ["x-1.0.data/data/../../evil", "x-1.0.data/scripts/../../evil", "x-1.0.data/data/.uenvtool/uenvtool.json"]
FILES += ["a\n.py", "\x1b[31m.py", "x-1.0.data/data/meta/env.json", "x-1.0.data/data/.lock"]
REPLACED = {
    "no metadata": ("METADATA", ""),
    "another name": ("METADATA", "Metadata-Version: 2.1\nName: y\nVersion: 1.0\n"),
    "another version": ("METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 9.0\n"),
    "hostile version": ("METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0; touch ran\n"),
    "escapes": ("METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\nSummary: \x1b]0;x\x07\x1b[2J\n"),
    "hostile requirement": ("METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\nRequires-Dist: $(touch ran)\n"),
    "file requirement": ("METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\nRequires-Dist: y @ file:///etc/\n"),
    "no record": ("RECORD", ""),
    "record outside": ("RECORD", "../../../../../victim,sha256=AAAA,1\n/etc/passwd,,\n"),
    "hostile command": ("entry_points.txt", "[console_scripts]\n../../../evil = x:y\n"),
    "command of code": ("entry_points.txt", "[console_scripts]\nok = os;open('ran','w'):y\n"),
    "commands over python": ("entry_points.txt", "[console_scripts]\npython = x:y\n"),
}


def served_as(folder: Path, path: Path, fragment: str = "") -> None:
    """An index of PEP 503 with one file of `x`."""
    page = folder / "x" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / path.name)
    page.write_text(f'<a href="../{path.name}{fragment}">{path.name}</a>\n')


def rewritten(path: Path, name: str, text: str) -> Path:
    """A wheel with another text for a file of its dist-info."""
    with zipfile.ZipFile(path) as archive:
        texts = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in {**texts, f"x-1.0.dist-info/{name}": text.encode()}.items():
            archive.writestr(member, content)
    return path


def source(path: Path, members: dict[str, str | None]) -> Path:
    """A source archive; None makes the member a link to /etc/passwd."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            if text is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                member.size = len(text)
            archive.addfile(member, io.BytesIO((text or "").encode()))
    return path


SOURCES = {
    **{f"traversal {name}": {name: "x", "x-1.0/pyproject.toml": ""} for name in NAMES},
    "link": {"x-1.0/pyproject.toml": None},
    "not TOML": {"x-1.0/pyproject.toml": "[project\n"},
    "hostile name": {"x-1.0/pyproject.toml": "[project]\nname = '$(touch ran)'\nversion = '1.0'\n"},
    "hostile backend": {"x-1.0/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = '../../evil'\n"},
    "requirements of the machine": {
        "x-1.0/pyproject.toml": "[build-system]\nrequires = ['y @ file:///etc/passwd']\nbuild-backend = 'y'\n"
    },
    "deep": {"x-1.0/pyproject.toml": f"x = {'[' * 50_000}"},
    "two folders": {"x-1.0/pyproject.toml": "", "y-1.0/pyproject.toml": ""},
    "nothing": {},
}


@pytest.fixture
def outside(place: Path) -> Look:
    """What lies beside the overlay, and may not change."""
    (place / "victim").write_text("mine")

    def look() -> dict[str, object]:
        found = snapshot(place)
        return {name: content for name, content in found.items() if name.split("/")[0] not in ("v", "index")}

    return look


def assert_contained(cli: Cli, url: str, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """The overlay is made or refused, and nothing else is there."""
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", url)
    before = look()
    shutil.rmtree("v", ignore_errors=True)
    answer = cli("venv", "v", "x", "--no-base")

    assert_is_an_answer(answer, url, codes=(0, 1, 2, 4))
    assert look() == before, answer
    assert answer.code != 0 or Path("v/pyvenv.cfg").is_file()
    assert "\x1b" not in answer.stdout + answer.stderr
    for name in ("/tmp/uenvtool-evil", "evil", "ran", "v/evil"):
        assert not Path(name).exists(), answer


PACKAGES: dict[str, Callable[[Path], Path]] = {
    **{
        f"a wheel with {name!r}": lambda wheels, name=name: wheel(wheels, "x", "1.0", files={name: "evil\n"})
        for name in FILES
    },
    **{
        f"a wheel with {case}": lambda wheels, case=case: rewritten(wheel(wheels, "x", "1.0"), *REPLACED[case])
        for case in REPLACED
    },
    **{
        f"a source: {case}": lambda wheels, case=case: source(wheels / "x-1.0.tar.gz", SOURCES[case])
        for case in SOURCES
    },
}
"""What breaks out, or says what is not so."""
FIRST = ("a wheel with '../../../evil'", "a wheel with record outside", "a source: link")
"""One of each kind."""


@pytest.mark.usefixtures("no_base")
@pytest.mark.parametrize("case", sampled([*FIRST, *(case for case in PACKAGES if case not in FIRST)], 3))
def test_a_package_that_breaks_out_lands_in_the_overlay_or_nowhere(
    case: str, cli: Cli, wheels: Path, place: Path, outside: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_as(place / "index", PACKAGES[case](wheels))
    with served(place / "index") as url:
        assert_contained(cli, url, outside, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("no_base")
@pytest.mark.parametrize("damage", ["wrong sum", "cut", "no archive", "page", "file link"])
def test_an_index_that_lies(
    damage: str, cli: Cli, wheels: Path, place: Path, outside: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(wheels, "x", "1.0")
    served_as(place / "index", path, "#sha256=" + "0" * 64 if damage == "wrong sum" else "")
    content, page = path.read_bytes(), place / "index/x/index.html"
    if damage in ("cut", "no archive"):
        (place / "index" / path.name).write_bytes(content[: len(content) // 2] if damage == "cut" else b"x" * 500)
    if damage == "page":
        page.write_text("\x1b[31m<a href='javascript:alert(1)'>x-1.0-py3-none-any.whl</a><a>" + "<a " * 10_000)
    if damage == "file link":
        page.write_text("<a href='file:///etc/passwd'>x-1.0-py3-none-any.whl</a>")
    with served(place / "index") as url:
        assert_contained(cli, url, outside, monkeypatch)
        assert not Path("v").exists()


@pytest.mark.slow
def test_damaged_locks(cli: Cli, wheels: Path, no_base: None, place: Path, outside: Look) -> None:
    wheel(wheels, "x", "1.0")
    assert cli("venv", "v", "x", "--no-base").code == 0
    lock = Path("v/.uenvtool/pylock.toml").read_text()
    digest = hashlib.sha256((wheels / "x-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert digest in lock
    for text in damaged_lines(lock, CASES or 5, seed=3):
        Path("index").mkdir(exist_ok=True)
        Path("index/pylock.toml").write_text(text, errors="surrogatepass")
        before = outside()
        shutil.rmtree("v", ignore_errors=True)

        answer = cli("venv", "v", "--no-base", "--from", "index/pylock.toml")

        assert_is_an_answer(answer, text, codes=(0, 1, 2, 4))
        assert outside() == before, text
