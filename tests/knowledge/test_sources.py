"""Test the check that the files of sources still contain the recorded values."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.conftest import Write
from tests.support.project import ROOT
from uenvtool.knowledge.sources import Source, load_sources
from uenvtool.knowledge.tuning import Value, load_all

_SPEC = importlib.util.spec_from_file_location("sources", ROOT / "tools" / "sources.py")
assert _SPEC
assert _SPEC.loader
sources = importlib.util.module_from_spec(_SPEC)
sys.modules["sources"] = sources  # where dataclass looks for a class's module
_SPEC.loader.exec_module(sources)
SOURCES = """\
description: Small.
sources:
  page: {title: a page, date: 2024-02, url: "https://a.page", repository: site/pages, files: [env.sh]}
  pinned: {title: an old page, date: 2025, url: "https://a.page", repository: site/pages, ref: v1, files: [env.sh]}
  seed: {title: a seed, date: 2025-09}
"""
MINE = """\
description: Mine.
variables:
  MY_NET: {type: text, says: {page: fast, pinned: slow, seed: slow}, settings: []}
"""


def forget() -> None:
    load_sources.cache_clear()


@pytest.fixture
def small(write: Write) -> Iterator[None]:
    """Sources and a tuning file of the user's, which nobody has read yet, and forgets again."""
    write("tuning/sources.yaml", SOURCES)
    write("tuning/mine.yaml", MINE)
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("export V=alt_read", "alt_read"),
        ('export V="AWS Libfabric"', "AWS Libfabric"),
        ("- -e V=1", "1"),
        ('defvar V "^LL128"', "^LL128"),
        ('          - V: "32768"', "32768"),
        ('V = "INFO" # (5)!', "INFO"),
        ('    V="0":, (changed from "1")', "0"),
        ("os.environ['V'] = 'hsn0,hsn1' # if you see hangs", "hsn0,hsn1"),
        ('  --env V="${V:-hybrid}" \\', "hybrid"),
        ("    V=\\${SLURM_PROCID} \\", "$SLURM_PROCID"),
        ("set `V=0`.", "0"),
        ("unset -v V", None),
        ("    unset OTHER V MORE", None),
        ("          - V: null", None),
    ],
)
def test_how_sites_write_that_a_variable_has_a_value(text: str, value: Value) -> None:
    assert [said for _, said in sources.given("V", f"one line\n{text}\n")] == [value]


@pytest.mark.parametrize("text", ["export MY_V=1", "export V_TOO=1", "more about V, see there", "$V=1", "unset VW"])
def test_what_gives_a_variable_no_value(text: str) -> None:
    assert list(sources.given("V", text)) == []


@for_all(st.from_regex(r"[A-Za-z0-9^$/_.-]*[A-Za-z0-9^$/_-]", fullmatch=True), st.text())
def test_a_quoted_value_is_found_at_its_line_whatever_is_around_it(value: str, before: str) -> None:
    text = f'{before}\nexport NCCL_NET="{value}"\n'

    found = sources.judged(Source("page", "a page", "2026"), "NCCL_NET", value, {"env.sh": text})

    assert found.place == f"env.sh:{before.count(chr(10)) + 2}"


def test_the_values_that_stand_there_instead_are_told_once() -> None:
    text = "export V=2\nexport V=2\nunset V\n"

    found = sources.judged(Source("page", "a page", "2026"), "V", "1", {"env.sh": text})

    assert (found.holds, found.others) == (False, ("2", "unset"))


@pytest.mark.parametrize(
    ("words", "text", "place"),
    [
        ("never set `V`", "Do this.\n\nYou must never\n  set `V`.", "a.md:3"),
        ("never set `V`", "set `V`", ""),
        ("The `V` variable ... Default: -1.", "The `V` variable\nis a number.\n\nDefault: -1.", "a.md:1"),
        ("The `V` variable ... Default: -1.", "The `V` variable\nDefault: -1", ""),
    ],
)
def test_words_of_a_source_stand_for_what_is_no_variable_beside_its_value(words: str, text: str, place: str) -> None:
    found = sources.judged(Source("page", "a page", "2026", words={"V": words}), "V", None, {"a.md": text})

    assert (found.place, found.holds) == (place, bool(place))


def test_every_source_says_where_its_files_are_or_is_not_public() -> None:
    for name, source in load_sources().items():
        assert bool(source.files) == bool(source.url), name
        assert all(file.startswith("https://") or source.repository for file in source.files), name
        assert set(source.words) <= {found.name for found in load_all().variables if name in found.says}, name


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A clone whose newest commit says `fast`, and its tag v1 `slow`."""
    folder = tmp_path / "clones"
    clone = folder / "pages"
    clone.mkdir(parents=True)

    def git(*words: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *named, *words], cwd=clone, check=True, capture_output=True)

    git("init", "-q")
    for value, tag in (("slow", "v1"), ("fast", "v2")):
        (clone / "env.sh").write_text(f"export MY_NET={value}\n")
        git("add", "env.sh")
        git("commit", "-qm", value)
        git("tag", tag)
    (clone / "env.sh").write_text("export MY_NET=uncommitted\n")
    return folder


def test_clones_are_read_at_the_commit_that_the_source_names(small: None, clones: Path) -> None:
    answer = sources.check(["page", "pinned", "seed"], clones=clones)

    assert "2 values of 2 sources: 2 confirmed, 0 not found" in answer.text
    assert answer.notes == ("seed was not read: the source is not public",)
    assert answer.exit_code == 0


def test_a_program_that_a_clone_names_is_not_started(small: None, clones: Path, tmp_path: Path) -> None:
    clone, ran = clones / "pages", tmp_path / "ran"
    blob = subprocess.run(["git", "rev-parse", "HEAD:env.sh"], cwd=clone, check=True, capture_output=True, text=True)
    (clone / ".git" / "objects" / blob.stdout[:2] / blob.stdout[2:].strip()).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(clone),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"touch {ran}; false",
        "protocol.allow": "always",
    }.items():
        subprocess.run(["git", "config", key, value], cwd=clone, check=True)
    subprocess.run(["git", "cat-file", "blob", "HEAD:env.sh"], cwd=clone, capture_output=True, check=False)
    assert ran.exists()  # what git does by itself
    ran.unlink()

    answer = sources.check(["page"], clones=clones)

    assert answer.exit_code == 4
    assert not ran.exists()


def test_drift_is_told_with_both_values_and_exit_code_1(write: Write, small: None, clones: Path) -> None:
    write("tuning/sources.yaml", SOURCES.replace("files: [env.sh]}\n  pinned", "files: [env.sh, gone.md]}\n  pinned"))
    write("tuning/mine.yaml", MINE.replace("fast", "slow"))

    answer = sources.check(["page"], clones=clones)

    assert list(answer.tables[0].rows) == [("page", "MY_NET", "slow", "contain fast")]
    assert answer.warnings[0].startswith("page: gone.md: ")
    assert answer.exit_code == 1


def test_a_variable_that_a_source_sets_and_nobody_recorded_is_drift(write: Write, small: None, clones: Path) -> None:
    (clones / "pages" / "env.sh").write_text("export MY_NET=fast\nexport NCCL_NEW=1\n")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qam", "new"],
        cwd=clones / "pages",
        check=True,
    )

    answer = sources.check(["page"], clones=clones)
    assert list(answer.tables[0].rows) == [("page", "NCCL_NEW", "-", "set the variable")]
    assert answer.exit_code == 1

    forget()
    write(
        "tuning/sources.yaml",
        SOURCES.replace("files: [env.sh]}\n  pinned", "files: [env.sh], beside: [NCCL_NEW]}\n  pinned"),
    )
    assert sources.check(["page"], clones=clones).exit_code == 0
