"""Detects the environment of this shell (uenvs, containers, jobs), and makes PATH, HOME and umask safe."""

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
"""Files that Docker, Podman, Apptainer and Flatpak create in a container."""
MOUNTS = "/proc/self/mountinfo"
"""The mounts of this process; `man 5 proc` documents the fields."""
CONTAINER_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "NVIDIA_BUILD_ID", "NVIDIA_PYTORCH_VERSION")
NO_HOME = "/nonexistent"
"""The home directory of users who have none, as in passwd on Debian."""
STARTED_BY = "UENVTOOL_STARTED_BY"
"""The variable that `--uenv` sets for its command: the shell command that starts a program in the uenv."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedView:
    """A loaded view of a uenv.

    mount: the mount point of its image. uenv: the name in the image, which can differ from the image name and tag.
    name: the name of the view. root: the directory of the view. image: the mounted file according to UENV_MOUNT_LIST;
    can be empty.
    """

    mount: str
    uenv: str
    name: str
    root: str
    image: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentJob:
    """The job that this shell is part of. scheduler: SLURM or KUBERNETES. id: the job ID of the scheduler."""

    scheduler: str
    id: str


def make_safe() -> None:
    """Make PATH, HOME and the umask safe, for this process and the programs that it starts.

    PATH gets no entry that depends on the current directory, which may be another person's clone. Without a home
    directory, as for a user ID that has no entry in passwd, `~` would be a name in the current directory. The user must
    be able to use all new files and directories.
    """
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    os.environ["PATH"] = os.pathsep.join(entries) or os.defpath  # an empty PATH also means the current directory
    if not os.path.isabs(os.path.expanduser("~")):
        os.environ["HOME"] = NO_HOME
    os.umask(os.umask(0o077) & 0o077)


def mounted_images(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the image file for each mount point in UENV_MOUNT_LIST (`image:mount,...`), set by the uenv client."""
    images = {}
    for item in filter(None, environ.get("UENV_MOUNT_LIST", "").split(",")):
        image, _, mount = item.rpartition(":")
        images[mount] = image
    return images


def loaded_views(environ: Mapping[str, str]) -> tuple[LoadedView, ...]:
    """Return the views in UENV_VIEW (`mount:name:view,...`), which the uenv client sets, with their directories."""
    images = mounted_images(environ)
    views = []
    for item in filter(None, environ.get("UENV_VIEW", "").split(",")):
        parts = item.split(":")
        if len(parts) == 3 and parts[0].startswith("/"):
            mount, uenv, name = parts
            root = _view_root(mount, name)
            views.append(LoadedView(mount=mount, uenv=uenv, name=name, root=root, image=images.get(mount, "")))
    return tuple(views)


def in_container(environ: Mapping[str, str]) -> bool:
    """Return whether this is a container of Docker, Podman, Apptainer, Flatpak or NVIDIA, by its variables and files.

    A virtual machine that was made from a container image has the same files. The files therefore show a container only
    if `/` is not a whole disk. uenvtool looks for the files below UENVTOOL_ROOT.
    """
    if any(name in environ for name in CONTAINER_VARIABLES):
        return True
    root = environ.get("UENVTOOL_ROOT", "")
    return any(os.path.exists(root + mark) for mark in CONTAINER_MARKS) and not _is_on_own_disk(root + MOUNTS)


def container_name(environ: Mapping[str, str]) -> str:
    """Return the container's name, which its image or runtime sets, or an empty string without one."""
    if environ.get("NVIDIA_PYTORCH_VERSION"):
        return f"nvcr.io/nvidia/pytorch:{environ['NVIDIA_PYTORCH_VERSION']}-py3"
    return environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""


def current_job(environ: Mapping[str, str]) -> CurrentJob | None:
    """Return the current Slurm job or Kubernetes pod, or None on a login node or a personal machine."""
    if environ.get("SLURM_JOB_ID"):
        return CurrentJob(scheduler=SLURM, id=environ["SLURM_JOB_ID"])
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return CurrentJob(scheduler=KUBERNETES, id=environ.get("HOSTNAME", ""))
    return None


def _is_on_own_disk(table: str) -> bool:
    # In a container, `/` is an overlay, an image or a directory of the host, and not a whole disk.
    try:
        with open(table, encoding="utf-8", errors="replace") as stream:
            mounts = [line.split() for line in stream]
    except OSError:
        return False
    sources = [words[words.index("-") + 2] for words in mounts if words[3:5] == ["/", "/"]]
    return bool(sources) and sources[-1].startswith("/dev/") and not sources[-1].startswith("/dev/loop")


def _view_root(mount: str, view: str) -> str:
    from uenvtool.core.files.reading import read_bytes
    from uenvtool.core.limits import limited

    path = Path(mount, "meta", "env.json")
    try:
        with limited(str(path)):
            root = json.loads(read_bytes(path, MAX_BYTES))["views"][view]["root"]
    except (OSError, BadInput, ValueError, KeyError, TypeError):
        root = None
    return root if isinstance(root, str) and root else os.path.join(mount, "env", view)
