"""Detects the properties of a cluster from one of its nodes, for a new system.

Detection changes nothing. It only reads files and runs programs that print information.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.core.session import KUBERNETES
from uenvtool.knowledge.kinds import RUNTIME
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.place import this_operating_system, this_target
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.system import Gpu
from uenvtool.knowledge.yamltree import read

GPUS = Path(__file__).parent / "gpus.yaml"
"""The table of GPU models and their compiler architectures, for nodes about which only the scheduler reports."""
FABRICS = ("slingshot", "infiniband", "roce", "ethernet")
RUNTIMES = ("uenv", "apptainer", "singularity", "podman-hpc", "shifter")
"""The runtimes whose program has the same name."""
OF_UBUNTU = {
    "mpi": "built with the other packages, for this network; if the site provides an MPI, name it with its versions",
    "packages": "the versions of Ubuntu 22.04; only `uenvtool build` needs them",
}
NOT_DETECTED = {**dict.fromkeys(("target", "os"), "not detected; only `uenvtool build` needs it"), **OF_UBUNTU}
OF_THIS_NODE = "the value of this node; nodes with GPUs may differ"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenPartition:
    """A partition as sinfo prints it. memory: GB per node. gpus: The model and number of the GPUs of a node."""

    name: str
    nodes: int
    cores: int
    memory: int
    gpus: tuple[str, int] | None = None
    is_default: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenSystem:
    """The properties of a new system.

    glibc, gcc, slurm: The versions in /usr.
    seen: The programs that provided information.
    guessed: The fields that were not detected, each with the reason for its value.
    """

    fabric: str = "ethernet"
    runtimes: tuple[str, ...] = ("none",)
    scheduler: str = "slurm"
    partition: str = ""
    target: str = "x86_64_v3"
    os: str = "ubuntu22.04"
    glibc: str = "2.35"
    gcc: str = "11.4.0"
    slurm: str = "21.08.5"
    cores: int = 0
    memory: int = 0
    gpus: Gpu | None = None
    seen: tuple[str, ...] = ()
    guessed: Mapping[str, str] = field(default_factory=lambda: OF_UBUNTU)


def partitions(text: str) -> list[SeenPartition]:
    """Parse the output of `sinfo -h -o '%P|%D|%c|%m|%G'`; partitions with the most GPUs per node come first."""
    listed = []
    for line in text.splitlines():
        columns = line.strip().split("|")
        if len(columns) != 5 or not columns[1].isdecimal():
            continue
        name, nodes, cores, memory, gres = columns
        gpu = re.search(r"gpu:(?:([A-Za-z][\w.-]*):)?(\d+)", gres)
        listed.append(
            SeenPartition(
                name=name.rstrip("*"),
                nodes=int(nodes),
                cores=int(cores.rstrip("+")),
                memory=int(memory.rstrip("+")) // 1024,
                is_default=name.endswith("*"),
                gpus=(gpu[1] or "", int(gpu[2])) if gpu else None,
            )
        )
    return sorted(listed, key=lambda seen: (-(seen.gpus[1] if seen.gpus else 0), not seen.is_default, -seen.nodes))


def nvidia_gpus(text: str) -> Gpu | None:
    """Return the GPUs in the output of nvidia-smi, or None if the output does not list any.

    text: The output of `nvidia-smi --query-gpu=name,compute_cap,memory.total --format=csv,noheader,nounits`.
    """
    rows = re.findall(r"^(?:NVIDIA )?(.+?), (\d+)\.(\d+), (\d+)\s*$", text, re.MULTILINE)
    if not rows:
        return None
    name, major, minor, memory = rows[0]
    return Gpu(vendor="nvidia", model=name, arch=major + minor, count=len(rows), memory=round(int(memory) / 1024))


def amd_gpus(text: str) -> Gpu | None:
    """Return the GPUs among the agents in the output of `rocminfo`, or None if the output does not list any."""
    arches = re.findall(r"^  Name: +(gfx\w+)", text, re.MULTILINE)
    models = re.findall(r"^  Marketing Name: +(AMD Instinct \S+)", text, re.MULTILINE)
    model = models[0].removeprefix("AMD Instinct ") if models else arches[0] if arches else ""
    return Gpu(vendor="amd", model=model, arch=arches[0], count=len(arches)) if arches else None


def gpus_of(ask: Callable[..., str]) -> Gpu | None:
    """Return the GPUs of this machine. ask: A function that returns the output of a program."""
    query = ("nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits")
    return nvidia_gpus(ask(*query)) or amd_gpus(ask("rocminfo"))


def gpu_count() -> int:
    """Return the number of GPUs that nvidia-smi or rocminfo reports on this machine."""
    gpus = gpus_of(_printed)
    return gpus.count if gpus else 0


def fabric_of(providers: str, devices: str) -> str:
    """Return the network in the outputs of `fi_info -l` and `ibv_devinfo`, or an empty string if they show none."""
    if re.search(r"^cxi:", providers, re.MULTILINE):
        return "slingshot"
    layers = set(re.findall(r"link_layer:\s*(\w+)", devices))
    return "infiniband" if "InfiniBand" in layers else "roce" if "Ethernet" in layers else ""


def _row(model: str) -> tuple[str, dict[str, str]]:
    """Return the longest name in the table that `model` contains, and its values. They are empty without a match."""
    table = read(GPUS, GPUS.name).value
    folded = re.sub(r"[^a-z0-9]", "", model.lower())
    name = max((name for name in table if name in folded), key=len, default="")
    return name, {key: str(node.value) for key, node in table[name].value.items()} if name else {}


def node_type(gpus: Gpu | None) -> str:
    """Return the name that recipes use for nodes with these GPUs."""
    if gpus is None:
        return "cpu"
    name, entry = _row(gpus.model)
    return entry.get("node") or name or re.sub("[^a-z0-9]+", "-", gpus.model.lower()).strip("-")


def _known_gpus(model: str, count: int) -> Gpu | None:
    name, entry = _row(model)
    if not name:
        return None
    vendor: Any = entry["vendor"]
    return Gpu(vendor=vendor, model=name.upper(), arch=entry["arch"], count=count, memory=int(entry.get("memory", 0)))


def _gpus_of_slurm(model: str, count: int) -> tuple[Gpu, str]:
    if known := _known_gpus(model, count):
        return known, "architecture and memory of the model that sinfo shows"
    which = f"of an unknown model, {model!r}" if model else "without a model"
    why = f"sinfo shows {count} GPUs {which}; give the model with --gpu MODEL, or edit vendor and arch here"
    return Gpu(vendor="nvidia", model=model.upper() or "GPU", arch="80", count=count), why


def detected_system(run: Callable[..., str] | None = None, environ: Mapping[str, str] = os.environ) -> SeenSystem:
    """Return the detected properties of this machine.

    run: A function that returns the output of a program, or an empty string if the program fails or is not installed.
    """
    ask = run or _printed
    listed = partitions(ask("sinfo", "-h", "-o", "%P|%D|%c|%m|%G"))
    gpus = gpus_of(ask)
    fabric = fabric_of(ask("fi_info", "-l"), ask("ibv_devinfo"))
    runtimes = [name for name in RUNTIMES if shutil.which(name)]
    runtimes += ["modules"] if environ.get("MODULESHOME") or environ.get("LMOD_CMD") else []
    runtimes += ["conda"] if listed else []  # a conda environment works without any support by the site
    first = listed[0] if listed else None
    glibc = re.match(r"ldd .* ([\d.]+)\n", ask("ldd", "--version"))
    gcc = ask("/usr/bin/gcc", "-dumpfullversion").strip()
    versions = {"glibc": glibc[1], "gcc": gcc} if glibc and re.fullmatch(r"[\d.]+", gcc) else {}
    slurm = re.match(r"slurm ([\d.]+)", ask("sinfo", "--version"))
    guessed = {**OF_UBUNTU, **dict.fromkeys(("target", "os", *(["packages"] if versions else [])), OF_THIS_NODE)}
    if not fabric:
        guessed["fabric"] = "neither fi_info -l nor ibv_devinfo shows a network here; run them on a node with GPUs"
    seen = {
        "sinfo": listed,
        "nvidia-smi or rocminfo": gpus,
        "fi_info or ibv_devinfo": fabric,
        "programs": runtimes,
    }
    if first and first.gpus and not gpus:
        gpus, guessed["gpu"] = _gpus_of_slurm(*first.gpus)
    return SeenSystem(
        fabric=fabric or "ethernet",
        runtimes=tuple(runtimes) or ("none",),
        scheduler="slurm" if listed else "none",
        partition=first.name if first else "",
        target=this_target(),
        os=this_operating_system(),
        **versions,
        **({"slurm": slurm[1]} if slurm else {}),
        cores=first.cores if first else os.cpu_count() or 0,
        memory=first.memory if first else 0,
        gpus=gpus,
        seen=tuple(source for source, value in seen.items() if value),
        guessed=guessed,
    )


def from_options(*, here: bool, fabric: str, gpu: str, cores: int, runtimes: Sequence[str]) -> SeenSystem | None:
    """Return the properties of a new system, or None if no option is given. Options replace detected values.

    Raises BadInput if a network, GPU model or runtime is unknown.
    """
    if not (here or fabric or gpu or cores or runtimes):
        return None
    properties = detected_system() if here else SeenSystem(runtimes=("conda",), guessed=NOT_DETECTED)
    model, _, count = gpu.partition(":")
    if model and not count and properties.gpus:
        count = str(properties.gpus.count)
    gpus = _known_gpus(model, int(count)) if count.isdecimal() and int(count) else None
    known = available(RUNTIME)
    problems = [unknown("runtime", name, known) for name in runtimes if name not in known]
    if fabric and fabric not in FABRICS:
        problems.append(unknown("fabric", fabric, FABRICS))
    if gpu and gpus is None:
        hint = f"write MODEL:COUNT, for example --gpu A100:4; known: {', '.join(read(GPUS, GPUS.name).value)}"
        problems.append(Problem(f"--gpu {gpu!r}: not a known GPU model with a count", hint=hint))
    BadInput.raise_any(problems)
    options = {"fabric": fabric, "gpu": gpus, "runtimes": runtimes}
    guessed = {name: why for name, why in properties.guessed.items() if not options.get(name)}
    gpus = gpus or properties.gpus
    cpu = _row(gpus.model)[1].get("target", "") if gpus else ""  # some modules contain both a CPU and a GPU
    named = [load_runtime(name).job.scheduler for name in runtimes]
    return replace(
        properties,
        scheduler=KUBERNETES if named and {*named} == {KUBERNETES} else properties.scheduler,
        fabric=fabric or properties.fabric,
        gpus=gpus,
        target=cpu or properties.target,
        cores=cores or properties.cores,
        runtimes=tuple(runtimes) or properties.runtimes,
        guessed=guessed | ({"target": "the CPU in the same module as this GPU"} if cpu else {}),
    )


def _printed(program: str, *arguments: str) -> str:
    path = shutil.which(program)
    answer = processes.ask([path, *arguments]) if path else None
    return answer.stdout if answer and answer.code == 0 else ""
