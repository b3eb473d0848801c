"""What `uenvtool container` is asked for, and the recipe that it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.container import Container
from uenvtool.knowledge.container_reader import container_of, load_container

_REFERENCE = re.compile(r"(?:docker://)?(?P<image>[^@]+?):(?P<tag>[^:/@]+)(?:@(?P<digest>[^@]+))?")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """The options of one call. recipe: a name or path; without it `base` and `pip` say what the image is.

    base: an image of somebody else's. name: of the image of `base` and `pip`. output: the folder to write.
    locked: nothing without a checksum is taken. force: the tool's own files are replaced although they were changed.
    """

    recipe: str | None = None
    base: str = ""
    pip: tuple[str, ...] = ()
    name: str = ""
    system: str | None = None
    uarch: str | None = None
    output: Path | None = None
    check: bool = False
    dry_run: bool = False
    locked: bool = False
    force: bool = False


def container_for(request: ContainerRequest) -> Container:
    """The recipe of a request. Raises BadInput for one that names none, or both kinds."""
    if request.recipe is not None:
        if request.base or request.pip or request.name:
            raise BadInput(
                "--from, --pip and --name go without a recipe", hint="write `from:` and `pip:` into a recipe"
            )
        return load_container(request.recipe)
    if not request.base:
        hint = "`uenvtool list containers` shows the recipes; or name an image: --from IMAGE --pip PACKAGE"
        raise BadInput("no recipe is named", hint=hint)
    return _on_image(request)


def _on_image(request: ContainerRequest) -> Container:
    """The recipe of an image of somebody else's with Python packages on top."""
    found = _REFERENCE.fullmatch(request.base)
    if found is None:
        raise BadInput(f"--from {request.base}: no tag is named", hint=f"write for example {request.base}:25.06-py3")
    if not request.pip:
        raise BadInput("--from without --pip: nothing would be added", hint="--pip metatrain; it may be given again")
    words = [found["image"].rsplit("/", 1)[-1], re.split(r"[\[<>=!~;@ ]", request.pip[0])[0]]
    name = request.name or "-".join(_NOT_IN_A_NAME.sub("-", word.lower()).strip("-") for word in words)
    base = {"image": found["image"], "tag": found["tag"], **({"digest": found["digest"]} if found["digest"] else {})}
    values = {
        "description": f"{', '.join(request.pip)} on {found['image']}:{found['tag']}",
        "base": base,
        "name": name,
        "pip": list(request.pip),
    }
    return container_of(values, name, "command line")
