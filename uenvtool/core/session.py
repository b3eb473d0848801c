"""What is loaded in this shell: uenv images and their views, a container, a scheduler's job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput

MAX_BYTES = 10_000_000
SLURM, KUBERNETES = "slurm", "kubernetes"
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/.singularity.d", "/.flatpak-info")
"""Files that Docker, Podman, Apptainer and Flatpak leave in a container."""
MOUNTS = "/proc/self/mountinfo"
"""The mounts of this process, as `man 5 proc` has their fields."""
CONTAINER_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "NVIDIA_BUILD_ID", "NVIDIA_PYTORCH_VERSION")
STARTED_BY = "UENVTOOL_STARTED_BY"
"""Set by `--uenv` for the command that it starts: the words that start one there, for a shell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedView:
    """A loaded view of a uenv.

    mount: where its image is mounted. uenv: the name in the image, which need not be its label. name: the
    view's. root: the folder of links. image: the file that is mounted, as UENV_MOUNT_LIST has it; may be empty.
    """

    mount: str
    uenv: str
    name: str
    root: str
    image: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentJob:
    """The job that this shell is part of. scheduler: SLURM or KUBERNETES. id: as the scheduler names it."""

    scheduler: str
    id: str


def mounted_images(environ: Mapping[str, str]) -> dict[str, str]:
    """Return mount point to image file of UENV_MOUNT_LIST (`image:mount,...`), as the uenv client sets it."""
    found = {}
    for item in filter(None, environ.get("UENV_MOUNT_LIST", "").split(",")):
        image, _, mount = item.rpartition(":")
        found[mount] = image
    return found


def loaded_views(environ: Mapping[str, str]) -> tuple[LoadedView, ...]:
    """Return the views of UENV_VIEW (`mount:name:view,...`) with their folders, as the uenv client sets it."""
    images = mounted_images(environ)
    found = []
    for item in filter(None, environ.get("UENV_VIEW", "").split(",")):
        words = item.split(":")
        if len(words) == 3 and words[0].startswith("/"):
            mount, uenv, name = words
            root = _view_root(mount, name)
            found.append(LoadedView(mount=mount, uenv=uenv, name=name, root=root, image=images.get(mount, "")))
    return tuple(found)


def in_container(environ: Mapping[str, str]) -> bool:
    """Tell by what the runtimes leave (Docker, Podman, Apptainer, NVIDIA's images) if this is a container.

    A virtual machine that was made from a container's image has its files too, on a disk of its own: they count
    where `/` is no whole disk. They are looked for below UENVTOOL_ROOT.
    """
    if any(name in environ for name in CONTAINER_VARIABLES):
        return True
    root = environ.get("UENVTOOL_ROOT", "")
    return any(os.path.exists(root + mark) for mark in CONTAINER_MARKS) and not _is_on_own_disk(root + MOUNTS)


def container_name(environ: Mapping[str, str]) -> str:
    """Return the name of the container that this is, if its image or runtime gives one; else empty."""
    if environ.get("NVIDIA_PYTORCH_VERSION"):
        return f"nvcr.io/nvidia/pytorch:{environ['NVIDIA_PYTORCH_VERSION']}-py3"
    return environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""


def current_job(environ: Mapping[str, str]) -> CurrentJob | None:
    """Return the job of Slurm or the pod of Kubernetes that this is; None on a login node or an own machine."""
    if environ.get("SLURM_JOB_ID"):
        return CurrentJob(scheduler=SLURM, id=environ["SLURM_JOB_ID"])
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return CurrentJob(scheduler=KUBERNETES, id=environ.get("HOSTNAME", ""))
    return None


def _is_on_own_disk(table: str) -> bool:
    """Tell if `/` is the whole of a disk: a runtime's is an overlay, an image, or a folder of the host's."""
    try:
        with open(table, encoding="utf-8", errors="replace") as stream:
            mounts = [line.split() for line in stream]
    except OSError:
        return False
    sources = [words[words.index("-") + 2] for words in mounts if words[3:5] == ["/", "/"]]
    return bool(sources) and sources[-1].startswith("/dev/") and not sources[-1].startswith("/dev/loop")


def _view_root(mount: str, view: str) -> str:
    """Return a view's folder as the image's meta/env.json has it, else the usual one."""
    from uenvtool.core.files.reading import read_bytes

    try:
        data = json.loads(read_bytes(Path(mount, "meta", "env.json"), MAX_BYTES))
        root = data["views"][view]["root"]
    except (OSError, BadInput, ValueError, KeyError, TypeError, RecursionError):
        root = None
    return root if isinstance(root, str) and root else os.path.join(mount, "env", view)
