"""Test that the image name contains a hash of all inputs and nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Write
from tests.container.recipes import BASE, SHA256, component, recipe
from uenvtool.container.deploy import content_hash
from uenvtool.container.image import make
from uenvtool.container.request import ContainerRequest

COMPONENTS: dict[str, dict[str, Any]] = {
    "lib": {
        "versions": {
            "1.0": {
                "sha256": SHA256,
                "source": "a test",
                "patches": [{"url": "https://example.org/p.patch", "sha256": "2" * 64, "reason": "why"}],
            }
        },
        "packages": {"build": ["gcc"], "runtime": ["libc6"]},
        "env": {"CC": {"value": "gcc", "reason": "why"}},
        "options": [{"value": "-O2", "reason": "why", "when": "gpu == nvidia"}],
        "build": [{"run": ["make", "@options@"], "reason": "why"}, ["make", "install"]],
        "installs": ["/usr/lib/lib.so"],
        "libraries": ["/opt/lib"],
        "sets": {"LIB_VERSION": "1"},
        "check": [["ldconfig"]],
    },
    "app": {"needs": ["lib"], "installs": ["/usr/bin/app"], "url": "https://example.org/app.tar.gz"},
}
RECIPE: dict[str, Any] = {
    "base": {**BASE, "digest": f"sha256:{SHA256}", "hooks": "/etc/hooks"},
    "name": "mine",
    "tag": "1-alps6",
    "image": "alps",
    "removes": {"reason": "why", "paths": ["/opt/x"], "packages": ["libx*"]},
    "packages": {"build": ["make"], "runtime": ["libz1"]},
    "components": {"lib": "1.0", "app": "1.0"},
    "pip": ["einops"],
}


def named(cli: Cli) -> str:
    """The canonical name of the recipe `mine`."""
    answer = cli("container", "mine", "--tag", "--system", "clariden")
    assert answer.code == 0, answer.stderr
    return answer.stdout.strip()


def put(folder: Path, components: dict[str, dict[str, Any]], values: dict[str, Any]) -> None:
    """Write components and the recipe `mine`."""
    for name, changes in components.items():
        path = folder / f"components/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(component(**changes))
    path = folder / "recipes/mine/container.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recipe(**values))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all texts in a value."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from leaves(child, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from leaves(child, (*path, index))
    else:
        yield path


def text_at(value: Any, path: tuple[Any, ...]) -> str:
    """The text at a path."""
    for step in path:
        value = value[step]
    return str(value)


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The value with one byte of one text changed, so that it is still of the form that is expected there."""
    result = copy.deepcopy(value)
    inner = result
    for step in path[:-1]:
        inner = inner[step]
    text = str(inner[path[-1]])
    if path[-1] in ("sha256", "digest"):
        inner[path[-1]] = text[:-1] + ("0" if text[-1] != "0" else "1")
    elif path[-1] == "when":
        inner[path[-1]] = text.replace("nvidia", "nvidib")
    else:
        inner[path[-1]] = text + "x"
    return result


INPUTS = [  # but for names of other files, and for a reason that counts only without a digest
    *(("recipe", path) for path in leaves(RECIPE) if path != ("image",) and not {"components", "unpinned"} & set(path)),
    *(
        (name, path)
        for name, values in COMPONENTS.items()
        for path in leaves(values)
        if not {"needs", "@options@"} & {*path, text_at(values, path)}
    ),
]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the recipe as it is."""
    folder = tmp_path_factory.mktemp("unchanged")
    put(folder, COMPONENTS, RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = make(ContainerRequest(recipe="mine", system="clariden", tag=True))
    return str(result.data["canonical"])


@pytest.mark.parametrize(("file", "path"), INPUTS, ids=str)
def test_each_input_changed_by_one_byte_gives_another_name(
    file: str, path: tuple[Any, ...], cli: Cli, place: Path, unchanged: str
) -> None:
    if file == "recipe":
        put(place, COMPONENTS, changed(RECIPE, path))
    else:
        put(place, {**COMPONENTS, file: changed(COMPONENTS[file], path)}, RECIPE)

    assert named(cli) != unchanged


def test_a_tuned_variable_of_the_image_is_an_input(cli: Cli, place: Path) -> None:
    put(place, COMPONENTS, RECIPE)
    before = named(cli)
    from tests.conftest import ROOT

    text = (ROOT / "knowledge/tuning/slingshot.yaml").read_text().replace("{value: hsn,", "{value: hsm,")
    (place / "tuning").mkdir()
    (place / "tuning/slingshot.yaml").write_text(text)

    assert named(cli) != before


def test_the_image_below_is_an_input(cli: Cli, place: Path, write: Write) -> None:
    put(place, COMPONENTS, RECIPE)
    write("recipes/top/container.yaml", '{"description": "x", "from": "mine", "pip": ["tqdm"]}')
    before = cli("container", "top", "--tag", "--system", "clariden").stdout
    put(place, COMPONENTS, {**RECIPE, "pip": ["pint"]})

    after = cli("container", "top", "--tag", "--system", "clariden").stdout

    assert before != after


def test_folder_clock_and_order_of_the_files_change_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "one", COMPONENTS, RECIPE)
    put(tmp_path / "a/much/deeper", dict(reversed(COMPONENTS.items())), dict(reversed(RECIPE.items())))
    for path in (tmp_path / "a").rglob("*.yaml"):
        os.utime(path, (0, 0))
    names = []
    for folder in ("one", "a/much/deeper"):
        monkeypatch.chdir(tmp_path / folder)
        names.append(named(cli))

    assert names[0] == names[1]


def test_a_path_to_the_recipe_gives_the_same_name(cli: Cli, place: Path) -> None:
    put(place, COMPONENTS, RECIPE)
    shutil.copytree(place, place / "copy")

    by_path = cli("container", str(place / "copy/recipes/mine"), "--tag", "--system", "clariden").stdout.strip()

    assert by_path == named(cli)


def test_what_it_is_tested_with_is_in_the_second_tag_alone(cli: Cli, place: Path) -> None:
    put(place, COMPONENTS, RECIPE)
    before = json.loads(cli("container", "mine", "--tag", "--system", "clariden", "--json").stdout)
    put(place, COMPONENTS, {**RECIPE, "tests": {"one": {"run": ["true"], "reason": "x"}}})

    after = json.loads(cli("container", "mine", "--tag", "--system", "clariden", "--json").stdout)

    assert after["canonical"] == before["canonical"]
    assert after["tested"] != before["tested"]
    assert after["tested"].startswith(f"{after['canonical']}-tested-")


def test_the_hash_can_be_made_again_with_sha256sum() -> None:
    lines = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in (("a", b"1"), ("b", b"2")))

    assert content_hash({"b": "2", "a": "1"}) == hashlib.sha256(lines.encode()).hexdigest()[:32]
