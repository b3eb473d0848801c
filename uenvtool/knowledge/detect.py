"""What can be seen of a cluster from one of its nodes, for a new system: reads only, and starts nothing else."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.kinds import RUNTIME
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.place import this_operating_system, this_target
from uenvtool.knowledge.system import Gpu
from uenvtool.knowledge.yamltree import read

GPUS = Path(__file__).parent / "gpus.yaml"
"""Models of GPUs with the architecture that compilers name, for what a scheduler says of nodes elsewhere."""
FABRICS = ("slingshot", "infiniband", "roce", "ethernet")
RUNTIMES = ("uenv", "apptainer", "singularity", "podman-hpc", "shifter")
"""The runtimes whose program has their name."""
OF_UBUNTU = {
    "mpi": "built with the rest, over this network; if the site has its own, name that, with its versions",
    "packages": "those of Ubuntu 22.04; `uenvtool build` alone asks for them",
}
NOBODY_LOOKED = {**dict.fromkeys(("target", "os"), "nobody looked; `uenvtool build` alone asks for it"), **OF_UBUNTU}
OF_THIS_NODE = "that of this node; nodes with GPUs may have another"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenPartition:
    """A partition as sinfo has it. gpus: model and count of a node, or none."""

    name: str
    nodes: int
    cores: int
    memory: int
    gpus: tuple[str, int] | None = None
    is_default: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenSystem:
    """What a new system says of itself. guessed: the fields that nobody saw, with why they are so.

    glibc, gcc: the versions in /usr.
    """

    fabric: str = "ethernet"
    runtimes: tuple[str, ...] = ("none",)
    scheduler: str = "slurm"
    partition: str = ""
    target: str = "x86_64_v3"
    os: str = "ubuntu22.04"
    glibc: str = "2.35"
    gcc: str = "11.4.0"
    cores: int = 0
    memory: int = 0
    gpus: Gpu | None = None
    seen: tuple[str, ...] = ()
    guessed: Mapping[str, str] = field(default_factory=lambda: OF_UBUNTU)


def partitions(text: str) -> list[SeenPartition]:
    """Return the partitions that `sinfo -h -o '%P|%D|%c|%m|%G'` prints, those with most GPUs first."""
    found = []
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 5 or not words[1].isdecimal():
            continue
        name, nodes, cores, memory, gres = words
        gpu = re.search(r"gpu:(?:([A-Za-z][\w.-]*):)?(\d+)", gres)
        found.append(
            SeenPartition(
                name=name.rstrip("*"),
                nodes=int(nodes),
                cores=int(cores.rstrip("+")),
                memory=int(memory.rstrip("+")) // 1024,
                is_default=name.endswith("*"),
                gpus=(gpu[1] or "", int(gpu[2])) if gpu else None,
            )
        )
    return sorted(found, key=lambda one: (-(one.gpus[1] if one.gpus else 0), not one.is_default, -one.nodes))


def nvidia_gpus(text: str) -> Gpu | None:
    """Return what `nvidia-smi --query-gpu=name,compute_cap,memory.total --format=csv,noheader,nounits` prints."""
    rows = re.findall(r"^(?:NVIDIA )?(.+?), (\d+)\.(\d+), (\d+)\s*$", text, re.MULTILINE)
    if not rows:
        return None
    name, major, minor, memory = rows[0]
    return Gpu(vendor="nvidia", model=name, arch=major + minor, count=len(rows), memory=round(int(memory) / 1024))


def amd_gpus(text: str) -> Gpu | None:
    """Return the GPUs that `rocminfo` prints among its agents."""
    arches = re.findall(r"^  Name: +(gfx\w+)", text, re.MULTILINE)
    models = re.findall(r"^  Marketing Name: +(AMD Instinct \S+)", text, re.MULTILINE)
    model = models[0].removeprefix("AMD Instinct ") if models else arches[0] if arches else ""
    return Gpu(vendor="amd", model=model, arch=arches[0], count=len(arches)) if arches else None


def gpus_of(ask: Callable[..., str]) -> Gpu | None:
    """Return the GPUs of this machine. ask: gives what a program prints."""
    query = ("nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits")
    return nvidia_gpus(ask(*query)) or amd_gpus(ask("rocminfo"))


def gpu_count() -> int:
    """Return how many GPUs this machine has, as nvidia-smi or rocminfo say."""
    found = gpus_of(_printed)
    return found.count if found else 0


def fabric_of(providers: str, devices: str) -> str:
    """Return the network that `fi_info -l` and `ibv_devinfo` show; empty if they show none."""
    if re.search(r"^cxi:", providers, re.MULTILINE):
        return "slingshot"
    layers = set(re.findall(r"link_layer:\s*(\w+)", devices))
    return "infiniband" if "InfiniBand" in layers else "roce" if "Ethernet" in layers else ""


def _row(model: str) -> tuple[str, dict[str, str]]:
    """Return the name and the entry of a model in the table, by a part of its name; empty if it is not there."""
    table = read(GPUS, GPUS.name).value
    folded = re.sub(r"[^a-z0-9]", "", model.lower())
    name = next((name for name in sorted(table, key=len, reverse=True) if name and name in folded), "")
    return name, {key: str(node.value) for key, node in table[name].value.items()} if name else {}


def node_type(gpus: Gpu | None) -> str:
    """Return what recipes call nodes with these GPUs."""
    if gpus is None:
        return "cpu"
    name, entry = _row(gpus.model)
    return entry.get("node") or name or re.sub("[^a-z0-9]+", "-", gpus.model.lower()).strip("-")


def known_gpus(model: str, count: int) -> Gpu | None:
    """Return the GPUs of a model that the table knows, by a part of its name; None of one that it does not."""
    name, entry = _row(model)
    if not name:
        return None
    memory = int(entry.get("memory", 0))
    vendor = cast("Literal['nvidia', 'amd']", entry["vendor"])
    return Gpu(vendor=vendor, model=name.upper(), arch=entry["arch"], count=count, memory=memory)


def _gpus_of_slurm(model: str, count: int) -> tuple[Gpu, str]:
    """Return the GPUs that sinfo shows, and what of them is guessed: of a model that nobody knows all but the count."""
    known = known_gpus(model, count)
    if known:
        return known, "architecture and memory by the model's name in sinfo"
    which = "of a model that nobody knows here" if model else "without a model"
    why = f"sinfo shows {count} GPUs {which}: give it by --gpu MODEL, or vendor and arch here"
    return Gpu(vendor="nvidia", model=model.upper() or "GPU", arch="80", count=count), why


def look(run: Callable[..., str] | None = None, environ: Mapping[str, str] = os.environ) -> SeenSystem:
    """Return what this machine shows. run: gives what a program prints, empty if it is not there or fails."""
    ask = run or _printed
    listed = partitions(ask("sinfo", "-h", "-o", "%P|%D|%c|%m|%G"))
    here = gpus_of(ask)
    fabric = fabric_of(ask("fi_info", "-l"), ask("ibv_devinfo"))
    runtimes = [name for name in RUNTIMES if shutil.which(name)]
    runtimes += ["modules"] if environ.get("MODULESHOME") or environ.get("LMOD_CMD") else []
    runtimes += ["conda"] if listed else []  # an environment of the user's needs nothing of the site's
    first = listed[0] if listed else None
    glibc, gcc = (
        re.match(r"ldd .* ([\d.]+)\n", ask("ldd", "--version")),
        ask("/usr/bin/gcc", "-dumpfullversion").strip(),
    )
    versions = {"glibc": glibc[1], "gcc": gcc} if glibc and re.fullmatch(r"[\d.]+", gcc) else {}
    guessed = {**OF_UBUNTU, **dict.fromkeys(("target", "os", *(["packages"] if versions else [])), OF_THIS_NODE)}
    if not fabric:
        guessed["fabric"] = "neither fi_info -l nor ibv_devinfo shows a network here: ask for it on a node with GPUs"
    gpus = here
    if first and first.gpus and not here:
        gpus, guessed["gpu"] = _gpus_of_slurm(*first.gpus)
    seen = {"sinfo": listed, "nvidia-smi or rocminfo": here, "fi_info or ibv_devinfo": fabric, "programs": runtimes}
    return SeenSystem(
        fabric=fabric or "ethernet",
        runtimes=tuple(runtimes) or ("none",),
        scheduler="slurm" if listed else "none",
        partition=first.name if first else "",
        target=this_target(),
        os=this_operating_system(),
        **versions,
        cores=first.cores if first else os.cpu_count() or 0,
        memory=first.memory if first else 0,
        gpus=gpus,
        seen=tuple(name for name, what in seen.items() if what),
        guessed=guessed,
    )


def from_options(*, here: bool, fabric: str, gpu: str, cores: int, runtimes: Sequence[str]) -> SeenSystem | None:
    """Return what a user asks a new system to say: what this machine shows, and over it what the options say.

    None if that is nothing. Raises BadInput for a network, GPUs or a runtime that nobody knows.
    """
    if not (here or fabric or gpu or cores or runtimes):
        return None
    found = look() if here else SeenSystem(runtimes=("conda",), guessed=NOBODY_LOOKED)
    model, _, count = gpu.partition(":")
    if model and not count and found.gpus:
        count = str(found.gpus.count)
    gpus = known_gpus(model, int(count)) if count.isdecimal() and int(count) else None
    known = available(RUNTIME)
    problems = [unknown("runtime", name, known) for name in runtimes if name not in known]
    if fabric and fabric not in FABRICS:
        problems.append(unknown("fabric", fabric, FABRICS))
    if gpu and gpus is None:
        hint = f"for example --gpu A100:4; known: {', '.join(read(GPUS, GPUS.name).value)}"
        problems.append(Problem(f"--gpu {gpu!r} names no GPUs", hint=hint))
    BadInput.raise_any(problems)
    options = {"fabric": fabric, "gpu": gpus, "runtimes": runtimes}
    guessed = {name: why for name, why in found.guessed.items() if not options.get(name)}
    gpus = gpus or found.gpus
    cpu = _row(gpus.model)[1].get("target", "") if gpus else ""  # in one module with the GPU
    return replace(
        found,
        fabric=fabric or found.fabric,
        gpus=gpus,
        target=cpu or found.target,
        cores=cores or found.cores,
        runtimes=tuple(runtimes) or found.runtimes,
        guessed=guessed | ({"target": "the CPU that this GPU is in one module with"} if cpu else {}),
    )


def _printed(program: str, *arguments: str) -> str:
    path = shutil.which(program)
    answer = processes.run([path, *arguments]) if path else None
    return answer.stdout if answer and answer.code == 0 else ""
