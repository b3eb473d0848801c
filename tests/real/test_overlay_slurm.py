"""An overlay wins over its base in the tasks of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import LAYOUTS
from tests.support.slurm import Slurm
from tests.venv.test_precedence import fill_base, ways

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm")]  # one Slurm a machine


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_overlay_wins_in_every_task(
    slurm: Slurm, loaded: Loaded, wheels: Path, cli: Cli, place: Path, layout: str
) -> None:
    here = loaded(layout)
    fill_base(here, wheels)
    answer = cli("venv", "v", "tool==2.0")
    assert answer.code == 0, answer.stderr

    for way, words in ways(place / "v" / "bin" / "python", place).items():
        env = {**here.environment, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
        ran = slurm.run("srun", "--ntasks=2", "--oversubscribe", *map(str, words), env=env)

        assert ran.returncode == 0, (way, ran.stderr)
        found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        assert len(found) == 2, way
        for each in found:
            assert (each["tool"], each["metadata"], each["inbase"]) == ("2.0", "2.0", "1.0"), way
            assert each["prefix"] == str(place / "v"), way
