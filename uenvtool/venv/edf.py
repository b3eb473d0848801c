"""Reads an environment definition file (EDF) as podman runs it: image, mounts and variables, with the files below it.

The keys are those of the Container Engine (https://docs.cscs.ch/software/container-engine/edf/). Its hooks are the
nodes' own, and no overlay needs them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import read_bytes

MAX_BYTES = 1_000_000
MAX_BELOW = 10
"""EDFs below one another."""
FLAGS = {"ro", "rw", "noexec", "nosuid", "nodev", "private", "rprivate", "slave", "rslave", "shared", "rshared"}
"""The flags of mounts that podman knows too."""
PASSED_ON = re.compile(r"(PIP|UV)_\w+|SOURCE_DATE_EPOCH|NO_COLOR")
"""The variables of the host that decide what is installed; the Container Engine passes all of them on."""
TOO_MUCH = ("/", "/usr", "/usr/local", "/opt")
"""Folders of the host that would hide the container's own."""
_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "image": (str, "a text"),
    "mounts": (list, "a list"),
    "env": (dict, "a table"),
    "base_environment": ((str, list), "a name or a list of them"),
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edf:
    """An EDF. texts: each of its files' text by path, for positions; the rest as it is written.

    is_whole: every file below it was found and read.
    """

    texts: Mapping[str, str]
    image: str = ""
    mounts: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    with_entrypoint: bool = False
    is_whole: bool = True

    def position(self, text: str) -> Position | None:
        """Find the place of a text in the nearest of its files that has it."""
        for path, content in self.texts.items():
            before, found, _ = content.partition(text) if text else ("", "", "")
            if found:
                return Position(path, before.count("\n") + 1, len(before) - before.rfind("\n"))
        return Position(next(iter(self.texts)))


def read_edf(named: str, environ: Mapping[str, str]) -> Edf:
    """Read the EDF of a path or name, with those that it builds on as far as they are found.

    Raises BadInput if it is not there or is no EDF.
    """
    path = _path_of(named, environ)
    if path is None:
        hint = "name its path, or put it into ~/.edf or a folder of EDF_PATH"
        raise BadInput(f"no EDF is called {named}", hint=hint)
    return _read(path, environ, ())


def _read(path: Path, environ: Mapping[str, str], above: tuple[Path, ...]) -> Edf:
    text, data = _parsed(path)
    if path.resolve() in above or len(above) > MAX_BELOW:
        raise BadInput("base_environment leads in a circle", Position(str(path)), "take it out of one of the files")
    named = data.get("base_environment", ())
    below = [_path_of(str(name), environ) for name in ([named] if isinstance(named, str) else named)]
    bases = [_read(base, environ, (*above, path.resolve())) for base in below if base is not None]
    own = Edf(
        texts={str(path): text},
        image=str(data.get("image", "")),
        mounts=tuple(map(str, data.get("mounts", ()))),
        environment={name: str(value) for name, value in data.get("env", {}).items()},
        with_entrypoint=data.get("entrypoint") is True,
        is_whole=len(bases) == len(below),
    )
    for base in reversed(bases):  # its image and variables win, its mounts come after
        own = Edf(
            texts={**own.texts, **base.texts},
            image=own.image or base.image,
            mounts=(*base.mounts, *own.mounts),
            environment={**base.environment, **own.environment},
            with_entrypoint=own.with_entrypoint or base.with_entrypoint,
            is_whole=own.is_whole and base.is_whole,
        )
    return own


def _parsed(path: Path) -> tuple[str, Mapping[str, Any]]:
    """Read the text of an EDF and its keys, each of the kind that it must have."""
    import tomlkit

    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8")
        data: dict[str, Any] = tomlkit.parse(text).unwrap()
    except (OSError, ValueError, tomlkit.exceptions.ParseError) as error:
        why, hint = getattr(error, "strerror", None) or error, "name the file that srun takes"
        raise BadInput(f"this EDF cannot be read: {why}", Position(str(path)), hint) from error
    for key, (kind, shown) in _KINDS.items():
        if key in data and not isinstance(data[key], kind):
            place = Edf(texts={str(path): text}).position(key)
            raise BadInput(f"{key} must be {shown}", place, "see what `uenvtool container` writes")
    return text, data


def _path_of(named: str, environ: Mapping[str, str]) -> Path | None:
    """Find the file of an EDF that is named by its path, or by its name on the Container Engine's search path."""
    if "/" in named or named.endswith(".toml"):
        return Path(named)
    home = environ.get("HOME", "")
    folders = [*environ.get("EDF_PATH", "").split(os.pathsep), os.path.join(home, ".edf") if home else ""]
    files = (Path(folder, f"{named}.toml") for folder in folders if folder)
    return next((file for file in files if os.path.isfile(file)), None)


def at_their_own_place(mounts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """List the folders of the host that are mounted at the same path; variables stand in braces."""
    found = []
    for mount in mounts:
        source, *rest = _VARIABLE.sub(lambda name: environ.get(name[1], name[0]), mount).split(":")
        if not rest or rest[0] == source:
            found.append(source)
    return found


def podman_words(edf: Edf, own: Sequence[Path], folder: str, environ: Mapping[str, str]) -> list[str]:
    """Return the words that start a command in the EDF's container with podman; the command goes behind them.

    own: this tool's folders, mounted too where the EDF does not. folder: where the command runs. The user is root of
    the container, which without root is the user: what is written is the user's.

    Raises BadInput for what podman cannot do, with its place.
    """
    if not edf.is_whole:
        hint = "put it into ~/.edf or a folder of EDF_PATH"
        raise BadInput("an EDF that this one builds on is not here", edf.position("base_environment"), hint)
    image = _image(edf)
    volumes = [_volume(mount, edf, environ) for mount in edf.mounts]
    mounted = at_their_own_place(edf.mounts, environ)
    volumes += [f"{path}:{path}:ro" for path in dict.fromkeys(own) if not _is_in(path, mounted)]
    passed = {name for name in environ if PASSED_ON.fullmatch(name)} - set(edf.environment)
    if _is_in(Path(environ.get("HOME") or "/"), mounted):
        passed.add("HOME")
    set_here = [
        f"--env={name}={_filled(value, name, edf, environ)}" if value else f"--unsetenv={name}"  # empty: removed
        for name, value in edf.environment.items()
    ]
    return [
        *("run", "--rm", "--interactive", "--security-opt=label=disable", "--user=0:0", f"--workdir={folder}"),
        *(f"--volume={volume}" for volume in volumes),
        *(f"--env={name}" for name in sorted(passed)),
        *set_here,
        *(() if edf.with_entrypoint else ("--entrypoint=",)),
        image,
    ]


def hides_the_containers(path: Path) -> bool:
    """Tell if a folder of the host would hide what the container has there."""
    return str(path) in TOO_MUCH


def _is_in(path: Path, places: Sequence[str]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _image(edf: Edf) -> str:
    """Return the image as podman names it. Raises BadInput for a squashfs file, which podman cannot run."""
    image = edf.image
    if not image:
        raise BadInput("it names no image", edf.position(""), 'write one: image = "REGISTRY#IMAGE:TAG"')
    if image.startswith(("/", ".", "~", "$")) or image.endswith((".sqsh", ".squashfs")):
        hint = (
            'write the image that it was made from, image = "REGISTRY#IMAGE:TAG"; or import it once: '
            f"unsquashfs -d root {image}; tar -C root -c . | podman import - localhost/mine; "
            'then image = "localhost/mine"'
        )
        raise BadInput(f"podman cannot run a squashfs file, {image}", edf.position(image), hint)
    named = re.fullmatch(r"(?:[^@#]+@)?([^#]+)#(.+)", image)
    if named:
        return f"{named[1]}/{named[2]}"
    return image if re.match(r"(localhost|[^/]*[.:][^/]*)/", image) else f"docker.io/{image}"


def _volume(mount: str, edf: Edf, environ: Mapping[str, str]) -> str:
    """Return a mount as podman takes it."""
    source, *rest = _filled(mount, mount, edf, environ).split(":")
    target, flags = (rest[0] if rest else source), (rest[1].split("+") if rest[1:] else [])
    wrong = [flag for flag in flags if flag not in FLAGS]
    if wrong:
        what = "cannot mount a squashfs file" if "sqsh" in wrong else f"has no flag {wrong[0]}"
        raise BadInput(f"podman {what}: {mount}", edf.position(mount), "take it out, or run it where srun is")
    if not os.path.exists(source):
        raise BadInput(f"{source} is not here to be mounted", edf.position(mount), "take the mount out, or make it")
    return ":".join([source, target, *([",".join(flags)] if flags else [])])


def _filled(text: str, place: str, edf: Edf, environ: Mapping[str, str]) -> str:
    """Fill in the variables that a text names. Raises BadInput for one that is not set."""
    for name in _VARIABLE.findall(text):
        if name not in environ:
            raise BadInput(f"{name} is not set, and {text} needs it", edf.position(place), f"export {name} first")
    return _VARIABLE.sub(lambda found: environ[found[1]], text)
