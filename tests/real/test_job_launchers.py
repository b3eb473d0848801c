"""Test typical training code in jobs of `uenvtool job` in a real Slurm, with two nodes of four ranks.

Each rank has a real torch (gloo) and a CUDA that counts its devices as the real one does.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.real.test_job_slurm import RANKS, Site, said, site, torch_python
from tests.support.needs import skip_without
from tests.support.samples import sampled

__all__ = ["site"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
FAKE_CUDA = Path(__file__).parent / "fake_cuda"
HEAD = """\
import json, os
import torch, torch.distributed as dist
def tell():
    ranks = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(ranks)
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES")
    env = {name: os.environ.get(name) for name in names}
    env |= {"RANK": str(dist.get_rank()), "WORLD": dist.get_world_size(), "sum": ranks.item()}
    print(json.dumps(env), flush=True)
"""
DDP = f"""{HEAD}
device = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
assert torch.cuda.device_count() == 4
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2)).sum().backward()
tell()
dist.destroy_process_group()  # else gloo's threads end some runs with "terminate called without an active exception"
"""
ONE_GPU = DDP.replace('device = int(os.environ["LOCAL_RANK"])', "device = 0").replace("== 4", "== 1")
LIGHTNING = f"""{HEAD}
import lightning
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import DDPStrategy
class OnCpu(DDPStrategy):
    root_device = property(lambda self: torch.device("cpu"))
CUDAAccelerator.setup_device = lambda self, device: None
CUDAAccelerator.setup = lambda self, trainer: None
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
    def on_train_end(self):
        tell()
data = torch.utils.data.DataLoader(torch.ones(16, 2), batch_size=1)
trainer = lightning.Trainer(
    accelerator="gpu", devices=4, num_nodes=2, strategy=OnCpu(process_group_backend="gloo"), max_epochs=1,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Model(), data)
"""
TRAINER = f"""{HEAD}
import transformers
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x, labels=None):
        out = self.layer(x)
        return {{"loss": out.sum(), "logits": out}}
data = [{{"x": torch.ones(2), "labels": torch.ones(1)}}] * 16
args = transformers.TrainingArguments(
    "out", use_cpu=True, ddp_backend="gloo", max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True
)
transformers.Trainer(Model(), args, train_dataset=data).train()
assert args.world_size == 8
tell()
"""
ACCELERATE = f"""{HEAD}
from accelerate import PartialState
state = PartialState(cpu=True)
assert state.num_processes == 8
tell()
state.destroy_process_group()
"""
ON_CPUS = f"""{HEAD}
from accelerate import Accelerator
assert Accelerator().state.num_processes == 8
tell()
dist.destroy_process_group()
"""
SCRIPT = """\
#!/bin/bash
ARGS=(
    --nproc_per_node 4
    --nnodes $NNODES
    --node_rank $NODE_RANK
    --master_addr $MASTER_ADDR
    --master_port $MASTER_PORT
)
torchrun ${ARGS[@]} train.py
"""
"""The launch command in the examples of Megatron-LM."""
FIRST = "set_device(LOCAL_RANK), DDP"
RUN = {
    FIRST: (DDP, "python train.py", ()),
    "torchrun of the job": (DDP, "python train.py", ("--launcher", "torchrun")),
    "one GPU for each rank, a command in one word": (ONE_GPU, "python train.py", ("--gpu-per-rank",)),
    "a script with torchrun": (DDP, "bash run.sh", ()),
    "a variable before it": (DDP, "OMP_NUM_THREADS=3 python train.py", ()),
    "Lightning devices=4, num_nodes=2": (LIGHTNING, "python train.py", ()),
    "Lightning, torchrun": (LIGHTNING, "python train.py", ("--launcher", "torchrun")),
    "HF Trainer": (TRAINER, "python train.py", ()),
    "accelerate launch, no GPU": (ACCELERATE, "accelerate launch train.py", ()),
    "accelerate launch, no GPU, on CPUs": (ON_CPUS, "ACCELERATE_USE_CPU=true accelerate launch train.py", ()),
    "accelerate launch": (ACCELERATE, "accelerate launch train.py", ()),
    "deepspeed": (DDP, "deepspeed train.py", ()),
    "accelerate launch, deepspeed below it": (DDP, "accelerate launch --use_deepspeed train.py", ()),
    "fabric run": (DDP, "fabric run --accelerator=cpu train.py", ()),
    "tune run": (DDP, "tune run train.py --config x", ()),
    "composer": (DDP, "composer train.py", ()),
    "colossalai run": (DDP, "colossalai run train.py", ()),
    "torchrun in the command": (DDP, "torchrun --nproc-per-node=4 train.py", ()),
    "python -m torch.distributed.run": (DDP, "nice python -u -m torch.distributed.run train.py", ()),
    "a module": (DDP, "python -m pkg", ()),
}
PACKAGES = {
    "Lightning": "lightning", "HF": "transformers", "accelerate": "accelerate", "deepspeed": "deepspeed",
    "fabric": "lightning", "tune": "torchtune", "composer": "composer", "colossalai": "colossalai",
}  # fmt: skip


def run(site: Site, place: Path, case: str) -> tuple[int, str]:
    """Submit the job of a case, and return its exit code and output."""
    program, command, options = RUN[case]
    python = torch_python()
    for package in (package for word, package in PACKAGES.items() if word in case):
        if subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode:
            skip_without(f"{package} beside torch", f"pip install {package} into that environment")
    (place / "train.py").write_text(program)
    (place / "pkg").mkdir(exist_ok=True)
    (place / "pkg" / "__main__.py").write_text(program)
    (place / "run.sh").write_text(SCRIPT)
    path = site.job(*([command] if "in one word" in case else command.split()), options=options)
    cuda = "" if "no GPU" in case else str(FAKE_CUDA)
    env = {"PATH": f"{Path(python).parent}:/usr/bin:/bin", "PYTHONPATH": cuda, "HF_HUB_OFFLINE": "1"}
    code, output = site.run(path, env=env)
    if case == "composer":  # which shows the first rank of a node, and writes the others to files
        output += "".join(log.read_text() for log in place.glob("logs/*/rank-*.log"))
    return code, output


@pytest.mark.parametrize("case", sampled(RUN, keep=5))
def test_all_ranks_are_one_world(site: Site, place: Path, case: str) -> None:
    code, output = run(site, place, case)

    ranks = said(output.replace("}{", "}\n{"))  # DeepSpeed's launcher has all ranks of a node write into one pipe
    assert code == 0, output
    assert [env["RANK"] for env in ranks] == [str(rank) for rank in range(RANKS)], output
    assert {env["WORLD"] for env in ranks} == {RANKS}
    assert {env["sum"] for env in ranks} == {float(sum(range(RANKS)))}
    assert len({env["SLURMD_NODENAME"] for env in ranks}) == 2
    if "deepspeed" not in case:  # whose launcher does not say it
        assert {env["LOCAL_WORLD_SIZE"] for env in ranks} == {"4"}
    if case.startswith("a variable"):
        assert {env["OMP_NUM_THREADS"] for env in ranks} == {"3"}
    if case == FIRST:  # each rank has a log of its own, and whole lines
        logs = [json.loads(log.read_text().splitlines()[-1]) for log in sorted(place.glob("logs/*/rank-*.log"))]
        assert [env["RANK"] for env in logs] == [env["RANK"] for env in ranks]
        assert all(line.split(":")[0].strip().isdecimal() for line in output.splitlines() if '"RANK"' in line)


def test_the_launcher_none_starts_one_process_a_node_with_what_it_needs(site: Site, place: Path) -> None:
    names = "$NODE_RANK of $NNODES at $MASTER_ADDR:$MASTER_PORT with $CUDA_VISIBLE_DEVICES"

    code, output = site.run(site.job("bash", "-c", f'echo "node {names}"', options=("--launcher", "none")))

    assert code == 0, output
    lines = sorted(re.findall(r"node (\d of \d) at (\w+:\d+) with (\S+)", output))
    address = lines[0][1]
    assert lines == [("0 of 2", address, "0,1,2,3"), ("1 of 2", address, "0,1,2,3")]
