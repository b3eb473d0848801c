"""Test that real Spack resolves the examples on images in docs/new-site.md."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.docs.blocks import read_blocks
from tests.real.conftest import RealSpack
from uenvtool.knowledge.lock import read_lock

pytestmark = [pytest.mark.real, pytest.mark.solve]
BLOCKS = [block for block in read_blocks() if block.file == "docs/new-site.md"]


def test_the_first_image_of_a_site_resolves_for_its_network(cli: Cli, write: Write, real_spack: RealSpack) -> None:
    files = [block.text for block in BLOCKS if block.language == "yaml"]
    for text in files:
        write(text.splitlines()[0].removeprefix("# "), text)
    (commands,) = (
        block.text for block in BLOCKS if block.text.startswith("uenvtool validate systems/mine.yaml recipes")
    )

    validate, build, *_ = (shlex.split(line)[1:] for line in commands.splitlines())
    answers = [cli(*validate), cli(*build, *real_spack.options)]

    assert [answer.code for answer in answers] == [0, 0], [answer.stderr for answer in answers]
    text = Path("envs/tools/mine-a100/spack.lock").read_text()
    assert {"libfabric", "openmpi", "osu-micro-benchmarks", "zstd"} <= read_lock(
        Path("envs/tools/mine-a100/spack.lock")
    ).versions().keys()
    assert "cxi" in text
