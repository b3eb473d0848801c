"""Compare the images with the documents on which the project is based. Each difference has a recorded reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.support.seeds import script, seed
from tests.support.toml import loads
from uenvtool.knowledge.container import load_container

NAMES = {
    "libfabric (CXI provider)": "libfabric",
    "NCCL": "nccl",
    "aws-ofi-nccl": "aws-ofi-nccl",
    "NVSHMEM": "nvshmem",
    "UCX": "ucx",
    "UCC": "ucc",
    "OpenMPI": "openmpi",
    "GDRCopy": "gdrcopy",
    "NCCL Tests": "nccl-tests",
    "OSU Micro-benchmarks": "osu",
}
"""The rows of the table in seeds/002, but for XPMEM, which has no version there."""
OTHERWISE = {
    "image": "uenvtool writes the path that build.sh writes to",
    "mounts": "/iopsstor, with two s, is the name of the file system; no user's folder is known",
    "workdir": "the folder where srun was called",
    "annotations.com.hooks.aws_ofi_nccl.variant": "cuda-dl takes the image's own CUDA; a static variant must match it",
    "env.NCCL_DEBUG": "a comment, for a look once: it prints many lines",
}
"""Entries of the seeds' EDFs that ours has with another value, or not, and why."""


def test_every_component_of_the_published_table_is_in_the_alps4_image_at_its_version() -> None:
    rows = dict(
        re.findall(r"^([A-Za-z][\w() -]+?) (\d[\w.-]+) [A-Z]", seed(2).split("Component Version")[1], re.MULTILINE)
    )
    ours = {choice.name: choice.version for choice in load_container("ngc-pytorch-26.02-alps4").components}

    assert {NAMES[name]: version for name, version in rows.items() if name in NAMES} == {
        name: ours[name] for name in NAMES.values()
    }
    assert "xpmem" in ours


def test_an_alps4_image_sets_what_its_own_tag_set() -> None:
    """alps-extended-images, alps-runtime.env: the tags alps4 and alps6 differ in these variables alone."""
    four, six = (
        dict(
            re.findall(
                r'^    (\w+)="(.*)"(?: \\)?$',
                (ROOT / f"containers/ngc-pytorch-26.02-alps{number}/Containerfile").read_text().split(" AS image")[1],
                re.MULTILINE,
            )
        )
        for number in (4, 6)
    )

    assert {name: value for name, value in six.items() if four.get(name) != value} == {
        "NCCL_CROSS_NIC": "0",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_SOCKET_NTHREADS": "4",
        "NCCL_NSOCKS_PERTHREAD": "1",
        "CUPY_CACHE_IN_MEMORY": "1",
    }
    assert {name for name, value in four.items() if name not in six} == set()
    assert four["NCCL_CROSS_NIC"] == "1"


def test_the_pipeline_has_the_five_stages_of_the_published_one() -> None:
    text = (ROOT / "containers/ngc-pytorch-26.02-alps6/gitlab-ci.yml").read_text()
    names = re.findall(r"^  \d\. ([\w-]+) — ", seed(2), re.MULTILINE)

    ours = re.search(r"^stages: \[(.*)\]$", text, re.MULTILINE)
    assert names == ["build-base", "test-base", "build-apps", "test-apps", "publish"]
    assert ours is not None
    assert ours[1].split(", ") == ["build", "test", "apps", "test-apps", "publish"]


def test_the_small_case_is_the_guides_dockerfile(cli: Cli) -> None:
    guide = re.search(r"FROM (?:docker://)?(\S+)\nRUN python3 -m pip install (\S+)", seed(0))
    index = re.search(r"index is added to `pip` .* `(\S+)`", seed(0))
    assert guide is not None
    assert index is not None

    answer = cli("container", "--from", guide[1], "--pip", guide[2], "--index", index[1], "--system", "clariden")

    assert answer.code == 0, answer.stderr
    text = Path("containers/pytorch-metatrain/Containerfile").read_text()
    assert f"ARG BASE={guide[1]}\n" in text
    assert f'"--index={index[1]}", "{guide[2]}"]' in text
    assert "podman build" in Path("containers/pytorch-metatrain/build.sh").read_text()
    made = Path("containers/pytorch-metatrain").rglob("[!.]*.*")
    assert sorted(path.name for path in made) == ["build.sh", "packages.py", "pytorch-metatrain.toml"]


@pytest.mark.parametrize(("number", "containing"), [(0, "<SQUASHFS_IMAGE_NAME>"), (1, "ngc-pytorch-my-app")])
def test_the_edf_has_what_the_published_ones_have(number: int, containing: str, cli: Cli) -> None:
    text = script(number, containing).replace("<WORKDIR>", '"x"')
    published = flat(loads(re.sub(r" # \(\d+\)!", "", text)))
    cli("container", "--from", "nvcr.io/nvidia/pytorch:25.06-py3", "--pip", "metatrain", "--system", "clariden")

    ours = flat(loads(Path("containers/pytorch-metatrain/pytorch-metatrain.toml").read_text()))

    assert {key: value for key, value in published.items() if ours.get(key) != value and key not in OTHERWISE} == {}


def flat(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Every entry of nested tables by its whole name."""
    found: dict[str, object] = {}
    for name, value in table.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def test_every_form_has_the_same_variables_for_an_extended_image(cli: Cli) -> None:
    texts = {
        form: cli("activate", "--system", "clariden", "--fact", "image=alps", "--shell", form).stdout
        for form in ("dotenv", "edf")
    }

    dotenv = dict(re.findall(r"^(\w+)='(.*)'$", texts["dotenv"], re.MULTILINE))
    edf = {name: value for name, value in loads(texts["edf"])["env"].items() if value}

    assert dotenv == edf
    assert len(edf) > 35
