"""Test several environments in one image: conflicts are reported with their position."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from uenvtool.core.errors import BadInput
from uenvtool.env.installable import Installable, read_installable, repos_of, texts_of, together

SPACK = """\
# Generated
spack:
  config: {{install_tree: {{root: {mount}}}}}
  repos: {{uenvtool: spack_repo/uenvtool, builtin: {{git: https://example.org/packages.git, tag: {tag}}}}}
  view: {{{view}: {{root: x}}}}
"""
COMPILER = """\
spack:
  specs: [{spec}]
  config: {{install_tree: {{projections: {{gcc@13.3.0: "compilers/{{name}}-{{version}}", all: x}}}}}}
  repos: {{builtin: {{tag: {tag}}}}}
"""


def environment(
    folder: Path,
    name: str,
    *,
    view: str = "",
    mount: str = "/user-environment",
    tag: str = "v1",
    spack: str = "1.1.0",
    target: str = "zen3",
    where: str = "",
    addition: str = "one",
    compiler: str = "",
) -> Installable:
    """A resolved environment on disk; each argument is what can keep it apart from another."""
    made = folder / name
    package = made / "spack_repo" / "uenvtool" / "packages" / "one" / "package.py"
    package.parent.mkdir(parents=True)
    package.write_text(addition)
    spec = {"name": "zstd", "version": "1.5.6", "arch": {"platform_os": "sles15", "target": target}}
    lock = {"roots": [], "concrete_specs": {"z" * 32: spec}, "spack": {"version": spack}}
    (made / "spack.lock").write_text(json.dumps(lock))
    (made / "spack.yaml").write_text(SPACK.format(mount=mount, view=view or name, tag=tag))
    if where:
        (made / ".uenvtool.json").write_text(json.dumps({"format": 1, "files": {}, "for": f"{name} for {where}"}))
    if compiler:
        (made / "compiler").mkdir()
        (made / "compiler" / "spack.yaml").write_text(COMPILER.format(spec=compiler, tag=tag))
        (made / "compiler" / "spack.lock").write_text(json.dumps(lock))
    return read_installable(made)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo: 1\n", "it has no mapping `spack:`"),
        ("spack:\n  config: {install_tree: /opt}\n", "'config.install_tree' is not a mapping"),
        ("spack:\n  env_vars: {set: [A]}\n", "'env_vars.set' is not a mapping"),
        ("spack:\n  repos: [a]\n", "'repos' is not a mapping"),
        ("spack:\n  view: {a.b: /opt}\n", "'view.a.b' is not a mapping"),
    ],
)
def test_a_manifest_that_is_not_spacks_is_refused_at_its_file(tmp_path: Path, text: str, said: str) -> None:
    environment(tmp_path, "a")
    (tmp_path / "a" / "spack.yaml").write_text(text)

    with pytest.raises(BadInput, match=re.escape(said)) as refused:
        read_installable(tmp_path / "a")

    assert "a/spack.yaml" in str(refused.value)


def test_sections_that_are_empty_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    environment(tmp_path, "a")
    (tmp_path / "a" / "spack.yaml").write_text("spack:\n  config:\n  env_vars: {set: }\n  view: {default: }\n")

    found = read_installable(tmp_path / "a")

    assert (found.mount, found.manifest["env_vars"]) == ("/user-environment", {"set": {}})
    assert found.manifest["view"] == {"default": {}}


def test_metadata_of_a_manifests_name_is_no_compiler(tmp_path: Path) -> None:
    environment(tmp_path, "a", compiler="gcc@13.3.0")
    (tmp_path / "a" / "extra").mkdir()
    (tmp_path / "a" / "extra" / "spack.yaml").write_text("what: metadata\n")

    found = read_installable(tmp_path / "a")

    assert ([*found.compilers], [*found.compiler_locks], len(found.locks)) == (["compiler"], ["compiler"], 2)
    assert "extra/spack.yaml" in found.texts


def test_each_has_a_place_and_the_additions_of_all_lie_beside_the_first(tmp_path: Path) -> None:
    first, second = environment(tmp_path, "a"), environment(tmp_path, "b")

    placed = together([first, second])

    assert [one.place for one in placed] == ["", "environments/b"]
    assert sorted(texts_of(placed)) == [
        "environments/b/spack.lock",
        "environments/b/spack.yaml",
        "environments/b/spack_repo/uenvtool/packages/one/package.py",
        "spack.lock",
        "spack.yaml",
        "spack_repo/uenvtool/packages/one/package.py",
    ]
    assert set(repos_of(placed)) == {"uenvtool", "builtin"}
    assert (together([first]), texts_of([first])) == ((first,), first.texts)
    assert replace(first, purpose="../../x for y").name == "a"  # a record that names a path gives no name
    with pytest.raises(BadInput, match="both are named a"):
        together([first, first])


@pytest.mark.parametrize(
    ("differing", "message"),
    [
        ({"mount": "/elsewhere"}, "one is mounted at /user-environment, the other is mounted at /elsewhere"),
        ({"target": "zen4"}, "one is built for os=sles15 target=zen3, the other is built for os=sles15 target=zen4"),
        (
            {"where": "bristen, node type a100"},
            "one is for clariden, node type gh200, the other is for bristen, node type a100",
        ),
        ({"spack": "1.2.0"}, "one is resolved by Spack 1.1.0, the other is resolved by Spack 1.2.0"),
        ({"tag": "v2"}, "they pin different revisions of the package repository builtin"),
        ({"addition": "two"}, "their additions spack_repo/uenvtool/packages/one/package.py differ"),
        ({"view": "a"}, "both have a view a\nhint: name one after its environment: `view: {name: b}`"),
        ({"compiler": "gcc@13.3.0 +nvptx"}, "they build gcc@13.3.0 differently"),
    ],
)
def test_what_keeps_them_apart_is_said_at_its_file(tmp_path: Path, differing: dict[str, str], message: str) -> None:
    first = environment(tmp_path, "a", where="clariden, node type gh200", compiler="gcc@13.3.0")
    same = {"where": "clariden, node type gh200", "compiler": "gcc@13.3.0"}
    other = environment(tmp_path, "b", **{**same, **differing})

    with pytest.raises(BadInput) as error:
        together([first, other])

    assert f"{other.folder}/spack.yaml: {other.folder} cannot be in the same image as {first.folder}: {message}" in str(
        error.value
    ).replace(":1:1", "")
