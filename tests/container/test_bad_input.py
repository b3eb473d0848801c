"""What is wrong in components and container recipes is said with its place, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.container.recipes import SHA256, component, project, recipe


def refused(cli: Cli, *more: str) -> str:
    """What is said of the recipe `mine`, which must be refused."""
    answer = cli("container", "mine", *more)
    assert answer.code == 2, answer.stderr
    assert not Path("containers").exists()
    return answer.stderr


def test_a_component_without_a_checksum(cli: Cli, write: Write) -> None:
    write("components/part.yaml", "description: A.\nurl: https://example.org/a.tgz\nversions:\n  1.0: {source: x}\n"
          "build: [[make]]\ninstalls: []\n")  # fmt: skip
    write("recipes/mine/container.yaml", recipe(components={"part": "1.0"}))

    told = refused(cli)

    assert "components/part.yaml:4:3: version 1.0 has no checksum" in told
    assert "add `sha256`, or `unchecked: REASON` if none is on record" in told


def test_a_circle(cli: Cli, write: Write) -> None:
    write("components/a.yaml", component(needs=["c"]))
    write("components/b.yaml", component(needs=["a"]))
    write("components/c.yaml", "description: C.\nurl: https://example.org/c.tgz\nneeds:\n- b\n"
          f"versions: {{1.0: {{sha256: '{SHA256}', source: x}}}}\nbuild: [[make]]\ninstalls: []\n")  # fmt: skip
    write("recipes/mine/container.yaml", recipe(components={"a": "1.0", "b": "1.0", "c": "1.0"}))

    told = refused(cli)

    assert "`needs` goes in a circle: " in told
    assert all(f"components/{name}.yaml" not in told or f"components/{name}.yaml:" in told for name in "abc")
    circle = told.split("circle: ")[1].splitlines()[0].split(" -> ")
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}
    assert told.startswith(f"components/{circle[0]}.yaml:")


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


def test_a_base_without_a_digest_is_refused_if_all_must_be_locked(cli: Cli, write: Write) -> None:
    project(write, {"part": {}})

    told = refused(cli, "--locked")

    assert "recipes/mine/container.yaml:1:" in told
    assert "example.org/base:1 has no digest: a test" in told
    assert "skopeo inspect --format '{{.Digest}}' docker://example.org/base:1" in told


def test_a_source_without_a_checksum_is_refused_if_all_must_be_locked(cli: Cli, write: Write) -> None:
    versions = {"1.0": {"unchecked": "nobody says", "source": "x"}}
    base = {"image": "example.org/base", "tag": "1", "digest": f"sha256:{SHA256}"}
    project(write, {"part": {"versions": versions}}, base=base)

    assert cli("container", "mine", "--dry-run").code == 0
    told = refused(cli, "--locked")

    assert "components/part.yaml:1:" in told
    assert "part 1.0 has no checksum: nobody says" in told


def test_everything_locked_is_written(cli: Cli, write: Write) -> None:
    project(write, {"part": {}}, base={"image": "example.org/base", "tag": "1", "digest": f"sha256:{SHA256}"})

    answer = cli("container", "mine", "--locked")

    assert answer.code == 0, answer.stderr
    assert f"ARG BASE=example.org/base:1@sha256:{SHA256}" in Path("containers/mine/Containerfile").read_text()


def test_an_unknown_component(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", "description: x\nhome: clariden\nbase: {image: a, tag: 1}\n"
          "components:\n  libfabrik: 2.6.0\n")  # fmt: skip

    told = refused(cli)

    assert told.startswith("recipes/mine/container.yaml:5:3: unknown component 'libfabrik'")
    assert "did you mean 'libfabric'" in told


def test_an_unknown_version(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", "description: x\nhome: clariden\nbase: {image: a, tag: 1}\n"
          "components:\n  xpmem: 9.9\n")  # fmt: skip

    told = refused(cli)

    assert told.startswith("recipes/mine/container.yaml:5:3: unknown version of xpmem '9.9'")


def test_a_component_that_another_needs(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", "description: x\nhome: clariden\nbase: {image: a, tag: 1}\n"
          "components:\n  ucx: 1.20.1\n")  # fmt: skip

    told = refused(cli)

    assert "recipes/mine/container.yaml:5:3: ucx needs gdrcopy, which the recipe does not have" in told
    assert "ucx needs xpmem" in told


def test_a_condition_about_an_unknown_fact(cli: Cli, write: Write) -> None:
    options = [{"value": "x", "when": "fabrik == slingshot"}]
    project(write, {"part": {"options": options, "build": [["make", "@options@"]]}})

    told = refused(cli)

    assert "components/part.yaml:1:" in told
    assert "unknown fact 'fabrik'" in told


def test_options_that_no_step_takes(cli: Cli, write: Write) -> None:
    project(write, {"part": {"options": [{"value": "x"}]}})

    assert "no step has the word @options@" in refused(cli)


def test_recipes_that_build_on_each_other(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", '{"description": "x", "from": "other"}')
    write("recipes/other/container.yaml", '{"description": "x", "from": "mine"}')

    assert "`from` goes in a circle: mine -> other -> mine" in refused(cli)


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


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "no recipe is named"),
        (("mine", "--pip", "x"), "--from, --pip and --name go without a recipe"),
        (("--from", "example.org/base"), "no tag is named"),
        (("--from", "example.org/base:1"), "--from without --pip"),
        (("--from", "example.org/base:1", "--pip", "-e ."), "error: --pip -e .: "),
        (("--from", "example.org/ba se:1", "--pip", "x"), "command line:1:"),
    ],
)
def test_options_that_do_not_go_together(cli: Cli, options: tuple[str, ...], what: str) -> None:
    answer = cli("container", *options)

    assert answer.code == 2
    assert what in answer.stderr


def test_a_field_that_has_a_line_break_is_named(cli: Cli, write: Write) -> None:
    write(
        "recipes/mine/container.yaml",
        'description: "Two\\nlines."\nhome: clariden\nbase: {image: e.org/b, tag: 1, unpinned: x}\n'
        'tests: {t: {run: [x], reason: r, prints: "a\\nb"}}\npip: ["a\\nb", 5]\n',
    )

    told = refused(cli)

    assert "recipes/mine/container.yaml:4:42: prints: 'a\\nb' has a line break" in told
    assert "recipes/mine/container.yaml:5:7: pip: 'a\\nb' has a line break" in told
    assert "recipes/mine/container.yaml:5:15: pip: expected text, found a whole number (5)" in told
    assert "hint: write it on one line" in told
    assert "description" not in told


def test_a_description_of_several_lines_is_one_in_the_image(cli: Cli, write: Write) -> None:
    write("recipes/mine/container.yaml", recipe(description="Two\nlines."))

    assert 'org.opencontainers.image.description="Two lines."' in cli("container", "mine", "--dry-run").stdout
