"""Test the inputs that determine a lock: the changes that make it out of date, and those that do not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Cli
from uenvtool.env.directory import DECIDING, MANIFEST, inputs_of, parts_of, why_outdated
from uenvtool.env.environment import REPOSITORY

ENVIRONMENTS = sorted(path.parent for path in ROOT.glob("envs/*/*/spack.yaml"))
CLARIDEN = ROOT / "envs/pytorch-2.6/clariden-gh200"
NOT_DECIDING = {"view", "modules", "env_vars", "config.install_tree"}
"""The other keys that uenvtool writes. They only matter after Spack has resolved the environment."""


def contents_of(directory: Path) -> dict[str, str]:
    names = json.loads((directory / ".uenvtool.json").read_text())["files"]
    return {name: (directory / name).read_text() for name in names if not name.endswith(("spack.lock", ".md"))}


def changed(contents: Mapping[str, str], name: str, old: str, new: str) -> dict[str, str]:
    assert old in contents[name]
    return {**contents, name: contents[name].replace(old, new)}


@pytest.mark.parametrize("directory", ENVIRONMENTS, ids=lambda path: str(path.relative_to(ROOT / "envs")))
@pytest.mark.parametrize(
    "keys",
    ["static_analysis: true", "timeout: 600", "concretization_cache: {enable: false}", "pruning: {any: false}"],
)
def test_a_key_that_changes_no_answer_keeps_the_committed_locks(directory: Path, keys: str) -> None:
    contents = contents_of(directory)

    for part in parts_of(contents):
        name = os.path.join(part, MANIFEST)
        other = changed(contents, name, "  concretizer:\n", f"  concretizer:\n    {keys}\n")
        assert why_outdated(directory, contents, part) == ""
        assert why_outdated(directory, other, part) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    install_tree:\n", "    build_jobs: 4\n    install_tree:\n"),
        ("root: /user-environment  #", "root: /other  #"),
        ("link: all", "link: roots"),
        ("NCCL_CROSS_NIC: '1'", "NCCL_CROSS_NIC: '2'"),
        ("  # same version as in the published uenv", "  # another reason"),
        ("  view:\n", "  mirrors: {here: /mirror}\n  view:\n"),
    ],
)
def test_a_change_in_the_use_of_an_environment_keeps_its_lock(old: str, new: str) -> None:
    assert why_outdated(CLARIDEN, changed(contents_of(CLARIDEN), MANIFEST, old, new), "") == ""


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("definitions", "- nccl@2.26.2-1", "- nccl@2.27"),
        ("specs", "    - [$arch]", "    - [$arch]\n  - zstd"),
        ("packages", "'@=3.13.0'", "'@=3.13.1'"),
        ("packages", "glibc@2.31 ", "glibc@2.34 "),
        ("packages", "prefix: /opt/cray/libfabric/1.22.0", "prefix: /opt/cray/libfabric/1.22.1"),
        ("repos", "10901c63af489e45789ed4854ed2b593f1880a55", "1" * 40),
        ("repos", "tag: v2026.06.0", "tag: v2026.07.0"),
        ("include", "spack:\n", "spack:\n  include: [other.yaml]\n"),
        ("config.deprecated", "deprecated: true", "deprecated: false"),
        ("concretizer.unify", "unify: true", "unify: when_possible"),
        ("concretizer.unify", "    unify: true", "    timeout: 0"),
        ("concretizer.reuse", "reuse: false", "reuse: dependencies"),
        ("concretizer.targets", "host_compatible: false", "host_compatible: true"),
        ("concretizer.duplicates", "  concretizer:\n", "  concretizer:\n    duplicates: {strategy: full}\n"),
        ("concretizer.splice", "  concretizer:\n", "  concretizer:\n    splice: {automatic: true}\n"),
    ],
)
def test_a_change_of_the_answer_names_exactly_its_key(key: str, old: str, new: str) -> None:
    other = changed(contents_of(CLARIDEN), MANIFEST, old, new)

    assert why_outdated(CLARIDEN, other, "") == f"is out of date, because these inputs changed: {key}"
    assert why_outdated(CLARIDEN, other, "compiler") == ""


def test_a_changed_package_class_makes_all_locks_old() -> None:
    name = f"{REPOSITORY}/packages/py_torch/package.py"
    other = changed(contents_of(CLARIDEN), name, "class ", "class  ")

    for part in ("", "compiler"):
        assert why_outdated(CLARIDEN, other, part) == f"is out of date, because these inputs changed: {REPOSITORY}"


@pytest.mark.parametrize("directory", ENVIRONMENTS, ids=lambda path: str(path.relative_to(ROOT / "envs")))
def test_each_generated_key_is_known_to_decide_or_not(directory: Path) -> None:
    for path in directory.glob("**/spack.yaml"):
        sections = yaml.safe_load(path.read_text())["spack"]
        nested = {section for section in sections if any(key.startswith(f"{section}.") for key in DECIDING)}
        keys = {f"{section}.{key}" for section in nested for key in sections[section]} | (sections.keys() - nested)
        assert keys <= DECIDING.keys() | NOT_DECIDING


@pytest.mark.parametrize("recorded", ["5e4a3cba", None, [], {"specs": 1}, {"unknown": "a"}])
def test_a_record_in_another_form_counts_as_other_inputs(place: Path, recorded: object) -> None:
    record = json.loads((CLARIDEN / ".uenvtool.json").read_text())
    record["lock"]["of"] = recorded
    (place / ".uenvtool.json").write_text(json.dumps(record))
    (place / "spack.lock").write_bytes((CLARIDEN / "spack.lock").read_bytes())
    contents = contents_of(CLARIDEN)

    reason = why_outdated(place, contents, "")

    assert reason == f"is out of date, because these inputs changed: {', '.join(inputs_of(contents))}"


def test_an_edited_lock_is_reported(place: Path) -> None:
    (place / ".uenvtool.json").write_bytes((CLARIDEN / ".uenvtool.json").read_bytes())
    (place / "spack.lock").write_text((CLARIDEN / "spack.lock").read_text() + "\n")

    assert why_outdated(place, contents_of(CLARIDEN), "") == "was edited"


def test_check_prints_the_keys_that_differ(cli: Cli, place: Path) -> None:
    directory = place / "envs/hello/clariden-gh200"
    directory.mkdir(parents=True)
    for path in (ROOT / "envs/hello/clariden-gh200").iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    recipes = place / "recipes/hello"
    recipes.mkdir(parents=True)
    text = (ROOT / "recipes/hello/recipe.yaml").read_text()
    (recipes / "recipe.yaml").write_text(text + "unify: when_possible\n")

    answer = cli("build", "hello", "--system", "clariden", "--check")

    assert answer.code == 1
    assert "spack.lock is out of date, because these inputs changed: concretizer.unify; run" in answer.stderr


def test_a_path_that_is_not_utf_8_in_a_comment_changes_no_input() -> None:
    contents = contents_of(CLARIDEN)
    named = os.fsdecode(b"# regenerate: uenvtool build -o n\xff\n")

    assert inputs_of({**contents, MANIFEST: named + contents[MANIFEST]}) == inputs_of(contents)
