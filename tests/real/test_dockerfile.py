"""Test how a real builder reads the ENV lines of a Dockerfile."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.activation.test_undo import AWKWARD, TEXT
from tests.support.needs import needs, skip_without
from uenvtool.activation.formats import docker_lines
from uenvtool.core import quoting
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.settings import settings_for

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("buildah")]


@pytest.fixture(scope="module", autouse=True)
def builder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the test if buildah cannot build, as in some containers."""
    try:
        built_environment(tmp_path_factory.mktemp("trial"), "ENV A=1")
    except subprocess.CalledProcessError as error:
        skip_without("buildah that may build", f"run outside a container ({error.stderr.strip().splitlines()[-1:]})")


def built_environment(folder: Path, lines: str) -> dict[str, str]:
    """Return the environment of an image that is built from a Dockerfile with these lines."""
    (folder / "Dockerfile").write_text(f"FROM scratch\n{lines}\n", encoding="utf-8")
    storage = ["--root", str(folder / "root"), "--runroot", str(folder / "runroot"), "--storage-driver", "vfs"]
    made = ["buildah", *storage, "bud", "--isolation", "chroot", "--quiet", str(folder)]
    image = subprocess.run(made, capture_output=True, text=True, check=True).stdout.split()[-1]
    inspected = ["buildah", *storage, "inspect", "--type", "image", image]
    data = json.loads(subprocess.run(inspected, capture_output=True, text=True, check=True).stdout)
    return dict(pair.split("=", 1) for pair in data["OCIv1"]["config"]["Env"])


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.one_of(AWKWARD, TEXT), min_size=20, max_size=40))
def test_a_dockerfile_gives_values_back(values: list[str], tmp_path: Path) -> None:
    lines, expected = [], {}
    for number, value in enumerate(values):
        try:
            lines.append(f"ENV V{number}={quoting.docker(f'V{number}', value)}")
        except BadInput:
            continue
        expected[f"V{number}"] = value

    env = built_environment(tmp_path, "\n".join(lines))

    assert {name: env[name] for name in expected} == expected


def test_the_lines_for_a_system_are_a_dockerfile(tmp_path: Path) -> None:
    lines = docker_lines(settings_for("clariden", recipe="pytorch-2.9", runtime="ce"))

    env = built_environment(tmp_path, "\n".join(lines))

    assert env["NCCL_PROTO"] == "^LL128"
    assert env["MPICH_GPU_SUPPORT_ENABLED"] == "0"
