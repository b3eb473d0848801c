"""Real ReFrame runs a test of an image as a job of a real Slurm, and its report sets the mark, or does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.kept_images import packed_image
from tests.support.needs import needs, skip_without
from tests.support.slurm import running_slurm

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm"), *needs("mksquashfs", "unsquashfs")]
SETTINGS = """\
site_configuration = {
    "systems": [
        {
            "name": "here",
            "hostnames": [".*"],
            "partitions": [{"name": "nodes", "scheduler": "squeue", "launcher": "srun", "environs": ["builtin"]}],
        }
    ],
    "environments": [{"name": "builtin"}],
}
"""
CHECK = """\
import reframe
import reframe.utility.sanity as sn


@reframe.simple_test
class Reads(reframe.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "unsquashfs"
    executable_opts = ["-cat", "IMAGE", "meta/env.json"]

    @sanity_function
    def named(self):
        return sn.assert_found("WANTED", self.stdout)
"""


def test_tests_that_ran_in_slurm_and_passed_set_the_mark(cli: Cli, place: Path) -> None:
    named = os.environ.get("UENVTOOL_TEST_REFRAME") or shutil.which("reframe")
    if named is None:
        skip_without(
            "ReFrame", "pip install ReFrame-HPC into a venv, and name its bin/reframe in UENVTOOL_TEST_REFRAME"
        )
    image = packed_image(place / "hello-0123456789ab.squashfs", "0123456789ab")
    (place / "settings.py").write_text(SETTINGS)
    (place / "slurm").mkdir()
    answers = {}

    with running_slurm(place / "slurm") as slurm:
        for wanted in ("absent", "name"):
            (place / "check.py").write_text(CHECK.replace("IMAGE", str(image)).replace("WANTED", wanted))
            report = place / f"{wanted}.json"
            options = (f"--report-file={report}", f"--prefix={place}/out", "-C", place / "settings.py")
            ran = slurm.run(named, "-c", place / "check.py", "--run", *options)
            assert report.is_file(), ran.stdout + ran.stderr
            answers[wanted] = cli("image", "mark-tested", image, "--reframe", report)
            assert image.with_name(f"{image.name}.tested").exists() == (wanted == "name")

    assert "1 of 1 tests did not pass: Reads" in answers["absent"].stderr
    assert (answers["absent"].code, answers["name"].code) == (1, 0), answers["name"].stderr
    assert "1 tests passed in ReFrame 4." in answers["name"].stderr
