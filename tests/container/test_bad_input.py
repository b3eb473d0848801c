"""What is wrong in components and container recipes is said with its place, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.container.recipes import SHA256, project, recipe


def refused(cli: Cli, *more: str) -> str:
    """What is said of the recipe `mine`, which must be refused."""
    answer = cli("container", "mine", *more)
    assert answer.code == 2, answer.stderr
    assert not Path("containers").exists()
    return answer.stderr


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/usr/lib/libx.so", "/usr/lib/libx.so"),
        ("/usr/lib/libx.so*", "/usr/lib/libx.so.1"),
        ("/usr/lib/*.so", "/usr/lib/libx.*"),
        ("/opt/x", "/opt/x/lib/liba.so"),
        ("/usr/*/libx.so", "/usr/lib/lib?.so"),
    ],
)
def test_two_that_install_one_file(cli: Cli, write: Write, first: str, second: str) -> None:
    project(write, {"one": {"installs": [first]}, "two": {"installs": [second]}})

    told = refused(cli)

    assert f"two installs {second}, and one installs {first}" in told
    assert told.startswith("components/two.yaml:1:")
    assert "components/one.yaml:1:" in told


def test_everything_locked_is_written(cli: Cli, write: Write) -> None:
    project(write, {"part": {}}, base={"image": "example.org/base", "tag": "1", "digest": f"sha256:{SHA256}"})

    answer = cli("container", "mine", "--locked")

    assert answer.code == 0, answer.stderr
    text = Path("containers/mine/Containerfile").read_text()
    assert f"ARG BASE=example.org/base:1@sha256:{SHA256}" in text
    assert f'org.opencontainers.image.base.digest="sha256:{SHA256}"' in text


@pytest.mark.parametrize("package", ["-r /etc/passwd", "--index-url=x y", "a b", ""])
def test_a_python_package_that_pip_would_read_as_something_else(cli: Cli, write: Write, package: str) -> None:
    write("recipes/mine/container.yaml", recipe(pip=[package]))

    assert refused(cli).startswith("recipes/mine/container.yaml:1:")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Upper"),
        ("tag", "a b"),
        ("tag", "x" * 49),
        ("base", {"image": "a\nRUN true", "tag": "1"}),
        ("base", {"image": "a", "tag": "1", "digest": "sha256:0"}),
        ("packages", {"build": ["gcc; true"]}),
        ("removes", {"reason": "x", "paths": ["/"]}),
        ("removes", {"reason": "x", "paths": ["/opt/../etc"]}),
        ("removes", {"reason": "x", "packages": ["--all"]}),
    ],
)
def test_a_value_that_could_be_taken_for_something_else(cli: Cli, write: Write, field: str, value: object) -> None:
    write("recipes/mine/container.yaml", recipe(**{field: value}))

    assert refused(cli).startswith("recipes/mine/container.yaml:1:")


def test_a_description_of_several_lines_is_one_in_the_image(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", recipe(description="Two\nlines."))

    assert 'org.opencontainers.image.description="Two lines."' in cli("container", "mine", "--dry-run").stdout
