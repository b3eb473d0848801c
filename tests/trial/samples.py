"""Log directories of `uenvtool try`, as its job writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

GIB = 1 << 30
NODES = ("n1", "n2", "n3", "n4")
PAIRS = {"pair-0-0": "n1 n4", "pair-0-1": "n2 n3", "pair-1-0": "n1 n3", "pair-1-1": "n4 n2", "pair-2-0": "n1 n2"}
PAIRS |= {"pair-2-1": "n3 n4"}
THREE = {"pair-0-1": "n2 n3", "pair-1-0": "n1 n3", "pair-2-0": "n1 n2"}
LOSSES = [0.5 - step / 100 for step in range(20)]


def perf(nodes: Sequence[str], rows: Mapping[int, float], test: str = "all_reduce_perf", wrong: int = 0) -> str:
    """Return the output of nccl-tests with the bandwidth of each size. wrong: the wrong values of the first size."""
    ranks = [
        f"#  Rank {rank:2} Group  0 Pid  {rank} on  {nodes[rank // 4]} device  {rank % 4} [0x01] NVIDIA GH200"
        for rank in range(4 * len(nodes))
    ]
    lines = []
    for size, busbw in rows.items():
        lines.append(f"  {size}  {size // 4}  float  sum  -1  99.5  70.04  {busbw}  {wrong}  99.5  70.04  {busbw}  0")
        wrong = 0
    end = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.5"]
    return "\n".join(f"0: {line}" for line in (f"# Collective test starting: {test}", *ranks, *lines, *end)) + "\n"


def losses(values: Sequence[float]) -> str:
    """Return the output of the training."""
    return "".join(f"0: step {step + 1}/20 loss {value!r}\n" for step, value in enumerate(values))


def device(node: str, count: int = 4, size: float = 101e9, name: str = "NVIDIA GH200 120GB") -> str:
    """Return the line that a node prints about its GPUs."""
    gpus = f"{count} x {name}, {size / 1e9:.0f} GB"
    return f"0: {node} has {gpus} and torch 2.9.1 from /env/torch, imported in 2.5 s\n"


def written(
    folder: Path,
    *,
    nodes: Sequence[str] = NODES,
    logs: Mapping[str, str] | None = None,
    codes: Mapping[str, str] | None = None,
    system: str = "clariden",
    end: bool = True,
) -> Path:
    """Write the directory of a right system, with other logs and exit codes for some tests."""
    all_nodes = " ".join(nodes)
    curve = {1 << 20: 11.5, 1 << 27: 123.5, GIB: 151.5}
    ran = {"devices": (all_nodes, "".join(map(device, nodes)))}
    ran |= {f"node-{node}": (node, perf([node], {GIB: 340.5})) for node in nodes}
    ran |= {f"sums-{run}": (all_nodes, perf(nodes, {1 << 20: 11.5})) for run in range(1, 9)}
    ran["all_reduce"] = (all_nodes, perf(nodes, curve))
    ran["sendrecv"] = (all_nodes, perf(nodes, {GIB: 24.2}, "sendrecv_perf"))
    ran["training-one-rank"] = (nodes[0], losses(LOSSES))
    ran |= {f"training-{run}": (all_nodes, losses(LOSSES)) for run in (1, 2)}
    if len(nodes) > 2:
        pairs = PAIRS if len(nodes) > 3 else THREE
        ran |= {name: (pair, perf(pair.split(), {GIB: 151.5})) for name, pair in pairs.items()}
    folder.mkdir(parents=True)
    lines = [f"on {system} uenv"]
    for name, (on, text) in ran.items():
        (folder / f"{name}.log").write_text((logs or {}).get(name, text))
        code = (codes or {}).get(name, "0")
        lines.append(f"{name} skipped 0 {code}" if not code.isdecimal() else f"{name} {code} 3 {on}")
    (folder / "results").write_text("\n".join([*lines, *(["end 0 99"] if end else [])]) + "\n")
    return folder
