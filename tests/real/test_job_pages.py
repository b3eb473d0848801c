"""Test the unchanged scripts of docs/jobs.md in jobs of a real Slurm with four nodes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import read_blocks
from tests.real.test_job_slurm import Site, site, torch_python, until, wait_for
from tests.support.debug_adapter import received, send
from tests.support.needs import skip_without
from tests.support.programs import program

__all__ = ["site"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
SCRIPTS = {
    block.text.split()[1].rstrip(":"): block.text
    for block in read_blocks()
    if block.file == "docs/jobs.md" and block.text.startswith("# ")
}


def put(place: Path, **texts: str) -> None:
    """Write scripts of the page, and other files, under their names."""
    for name, text in {**SCRIPTS, **{name.replace("_py", ".py"): text for name, text in texts.items()}}.items():
        (place / name).write_text(text)


def beside_torch(name: str, how: str) -> Path:
    """Return the directory of the test's torch, or skip the test if a program is missing there."""
    folder = Path(torch_python()).parent
    if not (folder / name).exists():
        skip_without(f"{name} in the environment of torch", how)
    return folder


def test_one_rank_is_profiled(site: Site, place: Path) -> None:
    put(place, train_py="import os\nopen('trained-' + os.environ['RANK'], 'w').close()\n")
    program(place / "bin" / "nsys", 'echo "$@" >nsys-$RANK\nshift 3\nexec "$@"')  # which cannot be had here

    path = site.job("bash", "profile.sh", sys.executable, "train.py")
    code, output = site.run(path, env={"PATH": f"{place}/bin:/usr/bin:/bin"})

    assert code == 0, output
    assert len(list(place.glob("trained-*"))) == 8
    (profiled,) = place.glob("nsys-*")
    assert profiled.name == "nsys-0"
    assert profiled.read_text().startswith("profile -o logs/job-")


def test_a_snapshot_keeps_the_code_of_a_job_that_waits(site: Site, place: Path) -> None:
    put(place, train_py="print('as committed')\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.ch"]
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "Train"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    subprocess.run(["bash", "snapshot.sh", "run"], cwd=place, check=True)

    (place / "train.py").write_text("print('edited')\n")
    path = site.job(sys.executable, "train.py", options=("--nodes", "1"))
    shutil.copy(path, place / "run")
    sent = site.slurm.submit("job.sh", cwd=place / "run", timeout=1200)

    (log,) = (place / "run").glob("slurm-*.log")
    assert sent.returncode == 0
    assert log.read_text().count("as committed") == 4
    assert "edited" not in log.read_text()


def attach(port: int) -> None:
    """Attach to debugpy as an editor does, with the first messages of the Debug Adapter Protocol."""
    with socket.create_connection(("127.0.0.1", port), timeout=600) as peer, peer.makefile("rwb") as stream:
        for number, (name, awaited, arguments) in enumerate(
            [
                ("initialize", "initialize", {"adapterID": "test"}),
                ("attach", "initialized", {"justMyCode": True}),
                ("configurationDone", "configurationDone", {}),
            ],
            1,
        ):
            send(stream, number, name, arguments)
            while (said := received(stream)) and awaited not in (said.get("event"), said.get("command")):
                pass


@pytest.mark.nightly
def test_an_editor_attaches_to_rank_0(site: Site, place: Path) -> None:
    folder = beside_torch("debugpy", "pip install debugpy into that environment")
    put(place, train_py="import os\nopen('trained-' + os.environ['RANK'], 'w').close()\n")
    path = site.job("bash", "debug.sh", "train.py", options=("--nodes", "1"))
    number = site.slurm.run(
        "sbatch", "--parsable", str(path), cwd=place, env={"PATH": f"{folder}:/usr/bin:/bin"}
    ).stdout.strip()
    until(lambda: len(list(place.glob("trained-*"))) == 3, site)

    def can_attach() -> bool:
        try:
            attach(5678)
        except OSError:
            return False
        return True

    assert not (place / "trained-0").exists()
    until(can_attach, site)
    wait_for(site.slurm, [number])

    assert (place / "trained-0").exists()


VLLM = """\
#!/usr/bin/env python
# Stands for vLLM, which needs a GPU: asks Ray for the GPUs that its options name, as vLLM does, and counts the nodes.
import sys
import ray
options = dict(zip(sys.argv, sys.argv[1:]))
shape = [int(options["--" + name + "-parallel-size"]) for name in ("tensor", "pipeline")]
ray.init(address="auto", log_to_driver=False)
bundles = [{"GPU": 1}] * (shape[0] * shape[1])
group = ray.util.placement_group(bundles, strategy="PACK")
ray.get(group.ready())
nodes = {node for node in ray.util.placement_group_table(group)["bundles_to_node_id"].values()}
print("served by", len(bundles), "GPUs of", len(nodes), "nodes", flush=True)
"""


@pytest.mark.nightly
def test_ray_has_its_head_and_workers_and_a_server_over_two_nodes(site: Site, place: Path) -> None:
    folder = beside_torch("ray", "pip install ray into that environment")
    put(place)
    program(place / "bin" / "vllm", VLLM)
    path = site.job("bash", "cluster.sh", options=("--launcher", "none", "--env", "MODEL=m"))

    code, output = site.run(path, env={"PATH": f"{place}/bin:{folder}:{os.defpath}"})

    assert code == 0, output
    assert "served by 8 GPUs of 2 nodes" in output


SERVER = """\
import os, socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"served")
socketserver.TCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", int(os.environ["SERVER"].split(":")[1])), Answer).serve_forever()
"""
CLIENT = """\
import os, socket, time
host, port = os.environ["SERVER"].split(":")
for attempt in range(3000):
    try:
        peer = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.1)
print("rank", os.environ["RANK"], "is", peer.recv(10).decode(), flush=True)
"""


@pytest.mark.nightly
def test_a_server_stays_up_while_ranks_run_and_ends_with_them(site: Site, place: Path) -> None:
    folder = Path(torch_python()).parent
    put(place, server_py=SERVER, train_py=CLIENT)
    path = site.job("bash", "with-server.sh", options=("--launcher", "none"))

    code, output = site.run(path, env={"PATH": f"{folder}:/usr/bin:/bin"})

    assert code == 0, output
    assert sorted(rank for rank in range(8) if f"rank {rank} is served" in output) == list(range(8))
