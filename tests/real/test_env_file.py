"""An env file as the real podman reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.needs import need, skip_without
from uenvtool.activation.activate import text
from uenvtool.core import quoting
from uenvtool.settings import settings_for

pytestmark = pytest.mark.real


def read_by_podman(file: Path, folder: Path) -> dict[str, str]:
    """The variables of a container that podman makes with --env-file; it is not started."""
    need("podman")
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    run_root = tempfile.mkdtemp(prefix="uet")  # podman takes no longer one than 50 characters
    words = ["podman", f"--root={folder}/storage", f"--runroot={run_root}", "--storage-driver=vfs"]
    made = subprocess.run(
        [*words, "create", "--network=none", f"--env-file={file}", "--rootfs", root, "/bin/true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        skip_without("a podman that may make containers", made.stderr[-200:])
    shown = subprocess.run([*words, "inspect", made.stdout.strip()], capture_output=True, check=True).stdout
    subprocess.run([*words, "rm", made.stdout.strip()], capture_output=True, check=True)
    shutil.rmtree(run_root, ignore_errors=True)
    return dict(entry.split("=", 1) for entry in json.loads(shown)[0]["Config"]["Env"])


def test_podman_gets_the_values_and_no_quotes(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    activation = settings_for("clariden", facts={"image": "alps"}, form="podman")
    file.write_text(text(activation, "podman", "a command") + "\n")

    env = read_by_podman(file, tmp_path)

    assert env["NCCL_NET"] == "AWS Libfabric"
    assert env["NCCL_PROTO"] == "^LL128"
    assert env["FI_CXI_RDZV_PROTO"] == "alt_read"


def test_podman_gives_any_value_back_that_is_not_refused(tmp_path: Path) -> None:
    values = ["a b", "'a'", '"a"', "$HOME", "a#b", "# a", "a=b", "\\", "ü", "*", "`id`", "^LL128", "a,b"]
    file = tmp_path / "job.env"
    file.write_text("".join(f"V{n}={quoting.env_file(f'V{n}', value)}\n" for n, value in enumerate(values)))

    env = read_by_podman(file, tmp_path)

    assert [env[f"V{n}"] for n in range(len(values))] == values
