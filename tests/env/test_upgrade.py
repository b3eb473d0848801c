"""`uenvtool upgrade`: what moves together, as a diff of the recipe; and what no package repository has, in words."""

from __future__ import annotations

import pytest

from tests.conftest import Cli, Write
from uenvtool.core.errors import Position
from uenvtool.env.environment import plan_environment
from uenvtool.env.repository import Missing, Request, problems, requests
from uenvtool.knowledge.choice import load_recipe
from uenvtool.knowledge.system import load_system

HERE = Position("recipe.yaml", 3, 5)
HELD = """\
extends: pytorch-2.9
description: Ours.
groups:
  python: {specs: [py-torchvision@0.24.1, py-h5py]}
require: {py-triton: 3.5.1}
"""


def test_the_newest_known_version_is_taken_and_a_built_in_recipe_is_extended(cli: Cli) -> None:
    answer = cli("upgrade", "pytorch-2.9", "--to", "torch@2.10")

    assert answer.code == 0, answer.stderr
    assert "+    - py-torch@2.10.0\n" in answer.stdout
    assert "triton 3.6.0" in answer.stderr
    assert "no package repository was looked into" in answer.stderr
    made = load_recipe("my-pytorch-2.9")
    assert next(root.spec.variants["nccl"] for root in made.roots if root.spec.package == "py-torch") is True


def test_what_the_recipe_holds_elsewhere_moves_with_it(cli: Cli, write: Write) -> None:
    path = write("recipes/ours/recipe.yaml", HELD)

    answer = cli("upgrade", "ours", "--to", "py-torch@2.10.0", "--dry-run")

    assert answer.code == 0, answer.stderr
    assert path.read_text() == HELD
    assert [line for line in answer.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-  python: {specs: [py-torchvision@0.24.1, py-h5py]}",
        "-require: {py-triton: 3.5.1}",
        "+  python: {specs: [py-torchvision@0.25.0, py-h5py, py-torch@2.10.0]}",
        "+require: {py-triton: '3.6.0'}",
    ]


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("tensorflow@2", "package of pytorch-2.9"),
        ("torch", "torch is not PKG@VERSION"),
        ("2.9", "not PKG@VERSION"),
        ("torch@@", "not PKG@VERSION"),
    ],
)
def test_what_cannot_be_moved_is_said(cli: Cli, to: str, said: str) -> None:
    answer = cli("upgrade", "pytorch-2.9", "--to", to)

    assert answer.code == 2
    assert said in answer.stderr


def test_every_pin_is_asked_of_the_repositories_but_those_of_the_system(write: Write) -> None:
    environment = plan_environment(load_recipe("pytorch-2.9"), load_system("clariden"), "gh200")

    specs = {request.spec.strip(): request for request in requests(environment)}

    assert "python@=3.12.12" in specs
    assert "py-triton@3.5.1" in specs  # of a coupling
    assert specs["py-numpy@=2.4.1"].soft
    assert not any(spec.startswith(("glibc", "slurm", "gcc")) for spec in specs)


def test_what_is_missing_is_said_with_the_nearest_and_preferences_in_one() -> None:
    wanted = Request(spec="zlib@9", position=HERE)
    soft = [Request(spec=f"{name}@=1", position=HERE, soft=True) for name in ("one", "two")]
    found = [
        Missing(request=wanted, kind="version", package="zlib", name="9", known=["1.3.1", "1.3"]),
        Missing(request=wanted, kind="variant", package="zlib", name="shred", known=["shared"]),
        Missing(request=wanted, kind="package", package="zlip", name="", known=[]),
        *(Missing(request=each, kind="version", package=each.spec[:3], name="=1", known=["2"]) for each in soft),
    ]

    version, variant, package, preferred = map(str, problems(found))

    assert version.startswith("recipe.yaml:3:5: no package repository has zlib@9")
    assert "1.3.1, 1.3" in version
    assert "zlib has no variant shred" in variant
    assert "no package repository has zlip\n" in package
    assert "2 of the preferred versions" in preferred
    assert "one@1 (has 2), two@1 (has 2)" in preferred
