"""Test reading dependencies and versions from locks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from uenvtool.core.errors import BadInput
from uenvtool.knowledge import lock
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.lock import is_build_only, read_lock, read_versions
from uenvtool.knowledge.settings import facts_of
from uenvtool.knowledge.system import load_system


@pytest.mark.parametrize(
    ("edge", "build_only"),
    [
        ({"parameters": {"deptypes": ["build"], "virtuals": ["c"]}}, True),
        ({"parameters": {"deptypes": ["build", "link"]}}, False),
        ({"parameters": {"deptypes": ["run"]}}, False),
        ({"type": ["build", "link"]}, False),  # of a Spack before 0.21, in images of 2023: nothing is left out of them
    ],
)
def test_what_is_needed_only_while_another_is_built(edge: dict[str, Any], build_only: bool) -> None:
    assert is_build_only({"name": "zlib", "hash": "a", **edge}) is build_only


@pytest.mark.parametrize("path", sorted(ROOT.glob("envs/**/spack.lock")), ids=lambda path: str(path.relative_to(ROOT)))
def test_versions_are_those_of_the_whole_lock(path: Path) -> None:
    packages = {software.package for software in SOFTWARE.values()} | {"gmake"}

    expected = {name: versions for name, versions in read_lock(path).versions().items() if name in packages}

    assert read_versions(path, packages) == expected != {}


def test_the_facts_of_a_recipe_need_only_names_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "parse_lock", lambda *_: pytest.fail("parsed the whole lock"))

    facts = facts_of(load_recipe("pytorch-2.6"), load_system("clariden"), "gh200")

    assert facts["nccl"] == "2.26.2-1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"spack\.lock:1:2: not a valid Spack lock"),
        ("[]", "not a valid Spack lock"),
        (json.dumps({"concrete_specs": {"a": {"name": "nccl"}}}), "not a valid Spack lock"),
        (json.dumps({"concrete_specs": {"a": {"name": "nccl", "version": "2\n"}}}), "not a valid Spack lock"),
        (None, "cannot read the file"),
    ],
)
def test_versions_of_a_damaged_lock_are_an_error(place: Path, text: str | None, message: str) -> None:
    path = place / "spack.lock"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BadInput, match=message):
        read_versions(path, {"nccl"})
