"""`uenvtool job --jit-cache` in a real Slurm: what real compilers compiled in one job is there in the next."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.real.test_job_slurm import TORCH, Site, site, torch_python
from tests.support.needs import skip_without

__all__ = ["site"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
MEMORY = Path("/dev/shm")
FIRST = """\
import json, os, pathlib, time
turn = pathlib.Path(os.environ["LOGS"], os.environ["SLURMD_NODENAME"])
while os.environ["LOCAL_RANK"] != "0" and not turn.exists():  # the first rank of a node compiles, the others find it
    time.sleep(0.1)
"""
LAST = """
turn.touch()
print(json.dumps({"RANK": os.environ["RANK"], "compiled": compiled}), flush=True)
"""
INDUCTOR = f"""{FIRST}
import torch
from torch._dynamo.utils import counters
torch.compile(lambda x: torch.nn.functional.gelu(x).sum(1) * 3)(torch.ones(8, 8))
compiled = counters["inductor"]["fxgraph_cache_miss"]
assert compiled + counters["inductor"]["fxgraph_cache_hit"] == 1
{LAST}"""
TRITON = f"""{FIRST}
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
@triton.jit
def copied(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i))
def binaries():
    return {{path.stat().st_mtime_ns for path in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin")}}
before = binaries()
source = ASTSource(fn=copied, signature={{"x": "*fp32", "y": "*fp32", "n": "constexpr"}}, constexprs={{"n": 128}})
compile(source, target=GPUTarget("cuda", 90, 32))  # as for a GH200; it takes no GPU
compiled = len(binaries() - before)
{LAST}"""


def compiled(site: Site, code: str, python: str) -> dict[str, int]:
    """Run a job of two nodes with two ranks each: how many kernels each rank compiled itself."""
    for old in site.place.glob("slurm-*.log"):
        old.unlink()
    (site.place / "train.py").write_text(code)
    options = ("--gpus", "2", "--jit-cache", "kept", "--force")
    status, output = site.run(site.job(python, "train.py", options=options))
    assert status == 0, output
    lines = [json.loads(line[line.index("{") :]) for line in output.splitlines() if '"compiled"' in line]
    return {line["RANK"]: line["compiled"] for line in lines}


@pytest.mark.parametrize(("module", "code"), [("torch", INDUCTOR), ("triton", TRITON)], ids=["torch", "triton"])
def test_a_node_compiles_once_and_the_next_job_not_at_all(site: Site, module: str, code: str) -> None:
    python = torch_python()
    if subprocess.run([python, "-c", f"import {module}"], check=False, capture_output=True).returncode != 0:
        skip_without(module, f"{TORCH}: a Python with {module}")
    kept = site.place / "kept"

    assert compiled(site, code, python) == {"0": 1, "1": 0, "2": 1, "3": 0}
    assert sorted(path.name for path in kept.iterdir()) == ["0.tar", "1.tar"]
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    (kept / "1.tar").unlink()  # a node more than before takes what the first one has
    assert set(compiled(site, code, python).values()) == {0}
    assert (kept / "0.tar").stat().st_mtime_ns == before[kept / "0.tar"]  # nothing new: not written again
    whole = (kept / "0.tar").read_bytes()
    (kept / "0.tar").write_bytes(whole[: len(whole) // 2])
    assert compiled(site, code, python)["0"] == 1  # damaged: made again
    assert "0.tar is damaged: not used" in site.written()
    assert not [path for path in MEMORY.glob("jit-*") if path.stat().st_uid == os.getuid()]
