"""Test the scripts for podman-hpc with the real program, in a real Slurm, as an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.real.test_runtimes import MODULE, SHOW, explained
from tests.support.containers import MQUEUE, image_root, laid, podman_hpc
from tests.support.ordinary_user import NOBODY, give_to_ordinary_user
from tests.support.slurm import Slurm, running_slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
AS_USER = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
IMAGE = "localhost/mine:1"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Slurm, Path]]:
    """A Slurm whose nodes have podman-hpc and its image, and the directory of the user's job."""
    tree, root = podman_hpc(), image_root()
    with tempfile.TemporaryDirectory(prefix="uenvtool-test-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        top.chmod(0o755)
        for folder in ("slurm", "job", "hpc"):
            (top / folder).mkdir(mode=0o755)
        give_to_ordinary_user(top / "hpc")
        store = f"mkdir -p /var/lib/hpc && mount --bind {top}/hpc /var/lib/hpc"
        lay = laid(tree, top, f"{MQUEUE}{store}\n")
        load = f'{lay}; tar -C "{root}" -c . | ({AS_USER} podman-hpc import - {IMAGE})'
        words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", load]
        env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": f"{top}/hpc", "USER": "nobody"}
        made = subprocess.run(words, cwd=top / "job", env=env, capture_output=True, text=True, check=False)
        stop_pause(top)
        assert made.returncode == 0, made.stderr
        try:
            with running_slurm(top / "slurm", lay=lay) as slurm:
                yield replace(slurm, user=NOBODY), top / "job"
        finally:
            stop_pause(top)
            shutil.rmtree(top / "hpc", ignore_errors=True)


def stop_pause(top: Path) -> None:
    """End the process of podman that keeps its namespaces, which another mount namespace must not join."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == NOBODY and top.name in (process / "mountinfo").read_text():
                os.kill(int(process.name), signal.SIGTERM)


def run(
    nodes: tuple[Slurm, Path], cli: Cli, system: str, *options: str, words: list[str]
) -> tuple[int, str, list[Any]]:
    """Run a job on one node with four ranks. Return its exit code, its output and the data of its ranks."""
    slurm, place = nodes
    for old in place.glob("rank-*.json"):
        old.unlink()
    (place / "show.py").write_text(SHOW)
    account = ("-A", "a") if system == "perlmutter" else ()
    given = ("--runtime", "podman-hpc", "--image", IMAGE, "--nodes", "1", "--time", "9", "--launcher", "srun", *options)
    answer = cli("job", "-s", system, *account, *given, "--", "python3", "show.py", *words)
    assert answer.code == 0, answer.stderr
    text = re.sub(r"#SBATCH --(partition|constraint|network|mem|account)\b.*\n", "", answer.stdout)
    (place / "job.sh").write_text(text)
    give_to_ordinary_user(place)
    env = {"HOME": str(place), "USER": "nobody", "TOKEN": 's "q $x', "FAILS": "1", **MODULE}
    sent = slurm.submit("job.sh", cwd=place, env=env, timeout=240)
    log = "\n".join(path.read_text(errors="replace") for path in place.glob("slurm-*.log"))
    files = sorted(place.glob("rank-*.json"))
    return sent.returncode, sent.stderr + log, [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize("system", ["perlmutter", "isambard-ai"])
def test_the_script_of_a_site_runs_in_podman_hpc(nodes: tuple[Slurm, Path], cli: Cli, system: str) -> None:
    data = nodes[1].parent / "data"
    data.mkdir(exist_ok=True)
    (data / "there").touch()
    give_to_ordinary_user(data)
    more = ("--mount", str(data), "--mount", f"{data}:/elsewhere", "--env", "TOKEN", "--env", "FAILS", "--gpu-per-rank")

    code, output, ranks = run(nodes, cli, system, *more, words=[f"{data}:/elsewhere", "a b", "$HOME", "*"])

    assert code == 7, output
    assert len(ranks) == 4
    for rank in ranks:
        assert rank["argv"][1:] == ["a b", "$HOME", "*"]
        assert rank["seen"] == {str(data): ["there"], "/elsewhere": ["there"]}
        assert rank["env"]["TOKEN"] == 's "q $x'
        assert rank["cwd"] == str(nodes[1])
    assert all(re.fullmatch(r"\d", rank["env"]["CUDA_VISIBLE_DEVICES"]) for rank in ranks)
    script = (nodes[1] / "job.sh").read_text()
    exported = dict(re.findall(r'^export (\w+)="\$\{\w+-([^"$]*)\}"', script, re.MULTILINE))
    assert len(exported) > 5
    assert {name: ranks[0]["env"].get(name) for name in exported} == exported
    known = explained(cli, system, "podman-hpc") | {"NCCL_NET": "removed"}  # the job has only one node
    assert len(known) > 5
    assert [{name: rank["env"].get(name, "removed") for name in known} for rank in ranks] == [known] * len(ranks)
