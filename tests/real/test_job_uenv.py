"""Test jobs with the real uenv client and its plugin in a real Slurm: base, overlay and staged images."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.world import LABEL, World, made
from tests.support import peers
from tests.support.slurm import Slurm, running_slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
JOB = "uenvtool job --account a01 --time 5 -o train.sh"
SHOW = """\
import os, sys, einops
line = f"rank {os.environ['RANK']}: {sys.prefix} {einops.__file__} {os.environ['UENV_MOUNT_LIST']}"
os.write(1, (line + "\\n").encode())
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, mount_points: tuple[Path, ...]) -> World:
    found = made(tmp_path_factory.mktemp("world"))
    overlay = found.run(f"uenv run {LABEL} --view=default -- uenvtool venv myenv einops --squash")
    assert overlay.returncode == 0, overlay.stderr
    plain = found.run(f"uenv run {LABEL} --view=default -- python -m venv --system-site-packages --without-pip plain")
    assert plain.returncode == 0, plain.stderr
    for site in found.folder.glob("plain/lib/python3*/site-packages"):
        (site / "einops.py").touch()
    packed = found.run(f"uenv run {LABEL} --view=default -- uenvtool venv plain --squash")
    assert packed.returncode == 0, packed.stderr
    (found.folder / "show.py").write_text(SHOW)
    return found


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), plugin=peers.uenv_plugin()) as found:
        yield found


def submitted(world: World, slurm: Slurm, command: str) -> tuple[int, str]:
    """Write a job, run it with sbatch, and return its exit code and the output of the job and its ranks."""
    wrote = world.run(command)
    assert wrote.returncode == 0, wrote.stderr
    return world.submit(slurm, (world.folder / "train.sh").read_text())


def test_the_ranks_of_the_base_meet(world: World, slurm: Slurm) -> None:
    code, output = submitted(world, slurm, f"{JOB} --recipe pytorch-2.6 -- python train.py")

    assert code == 0, output
    met = re.findall(r"rank (\d) of 8 met 'AWS Libfabric' /user-environment/", output)
    assert sorted(met) == list("01234567")


OVERLAYS = {
    "packed": ("--nodes 1 --venv myenv.squashfs", 4),
    "loose": ("--nodes 1 --venv myenv", 4),
    "plain": ("--recipe pytorch-2.6 --nodes 1 --venv plain", 4),
    "plain, packed": ("--recipe pytorch-2.6 --nodes 1 --venv plain.squashfs", 4),
    "packed and staged": ("--stage --venv myenv.squashfs", 8),
}


@pytest.mark.parametrize("case", OVERLAYS)
def test_an_overlay_brings_its_base_and_wins(world: World, slurm: Slurm, case: str) -> None:
    options, ranks = OVERLAYS[case]

    code, output = submitted(world, slurm, f"{JOB} {options} -- python show.py")

    assert code == 0, output
    seen = re.findall(r"rank \d: (\S+) (\S+) (\S+)\n", output)
    assert len(seen) == ranks, output
    where = {"loose": str(world.folder / "myenv"), "plain": str(world.folder / "plain")}.get(case, "/user-tools")
    assert all(prefix == where and file.startswith(f"{where}/lib/") for prefix, file, _ in seen), output
    if case == "packed and staged":  # from the memory of the nodes, where nothing stays
        for _, _, images in seen:
            copies = dict(image.split(":")[::-1] for image in images.split(","))
            assert sorted(copies) == ["/user-environment", "/user-tools"]
            assert all(re.fullmatch(r"/dev/shm/\d+-[01].squashfs", copy) for copy in copies.values())
            assert not any(Path(copy).exists() for copy in copies.values())


def test_a_shell_on_a_node_has_what_a_job_has(world: World, slurm: Slurm) -> None:
    wrote = world.run(f"{JOB} --venv myenv.squashfs --interactive")
    assert wrote.returncode == 0, wrote.stderr
    typed = 'echo "on $SLURMD_NODENAME: $CUDA_VISIBLE_DEVICES $NCCL_CROSS_NIC"; tty; RANK=0 python show.py; exit 3\n'

    words = ["script", "--quiet", "--return", "--command", "bash train.sh", "/dev/null"]
    environ = {**world.environ, "SLURM_CONF": str(slurm.conf)}
    ran = subprocess.run(words, input=typed, cwd=world.folder, env=environ, capture_output=True, text=True, check=False)

    assert ran.returncode == 3, ran.stdout
    assert re.search(r"on n\d: 0,1,2,3 1\n/dev/pts/\d+\nrank 0: /user-tools /user-tools/lib/", ran.stdout), ran.stdout


def test_an_overlay_on_another_base_is_refused(world: World) -> None:
    ran = world.run(f"{JOB} --image pytorch/v2.9.1:v2 --venv myenv -- python train.py")

    assert (ran.returncode, "not on pytorch/v2.9.1:v2" in ran.stderr) == (2, True)
