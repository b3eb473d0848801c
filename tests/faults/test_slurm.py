"""Test that real Slurm accepts the options and values of each generated job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.support.slurm import GPUS, Slurm, running_slurm
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.system import load_system

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm"), pytest.mark.slow]
VARIANTS: list[list[str]] = [
    [],
    ["--nodes", "1"],
    ["--nodes", "4", "--time", "23:59:59"],
    ["--gpu-per-rank"],
    ["--requeue", "--option", "--array=0-3%2"],
    ["--launcher", "torchrun"],
    ["--name", "a b'c\"d #e"],
]
OF_A_PLUGIN = re.compile(r"^#SBATCH --(uenv|view|network|environment)\b.*\n", re.MULTILINE)
"""Options of a site's plugin or network, which this Slurm has not."""
OF_A_SITE = re.compile(r"^#SBATCH --(partition|account|constraint|reservation|qos|mem)\b.*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def places() -> Iterator[tuple[str, str]]:
    """Each system with each of its runtimes that Slurm starts."""
    for path in sorted((ROOT / "knowledge/systems").glob("*.yaml")):
        with contextlib.suppress(BadInput):  # one that is there to be extended
            for runtime in load_system(path.stem).runtimes:
                if (job := load_runtime(runtime).job) and job.scheduler == "slurm":
                    yield path.stem, runtime


@pytest.mark.parametrize(("system", "runtime"), list(places()))
def test_sbatch_takes_it(system: str, runtime: str, slurm: Slurm, place: Path, cli: Cli) -> None:
    took = 0
    for number, options in enumerate(VARIANTS):
        words = ["job", "--system", system, "--runtime", runtime, "--account", "g1"]
        words += [] if load_runtime(runtime).job.image == "none" else ["--image", "pytorch/v2.6.0:v1"]  # type: ignore[union-attr]
        answer = cli(*words, *options, "-o", f"job{number}.sh", "--", "/opt/torch/bin/python", "train.py")
        if answer.code == 2:  # a name, or a way of binding, that this place cannot have
            assert "No such option" not in answer.stderr
            continue
        assert answer.code == 0, answer.stderr
        text = (place / f"job{number}.sh").read_text()
        text = re.sub(r"(--(?:gpus|ntasks)-per-node=)8", rf"\g<1>{GPUS}", text)
        (place / "test.sh").write_text(OF_A_SITE.sub("", OF_A_PLUGIN.sub("", text)))
        done = slurm.run("sbatch", "--test-only", "test.sh", cwd=place)
        assert done.returncode == 0, (options, done.stderr, text)
        took += 1
    print(f"{system} {runtime}: {took} jobs")
    assert took >= 4
