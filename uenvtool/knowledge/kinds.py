"""The kinds of knowledge: one row says where files of a kind lie, how they are read, and how their lists are joined.

A new kind is one row here, one schema of the same name, and a reader. `validate`, `show`, `list`, `schema` and
`extends` then know it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.yamltree import Node

Reader = Callable[[str], object]
"""Reads the file of a name or path. Raises BadInput with everything that is wrong in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of knowledge file.

    name: of the kind and of its schema. folder: the folder that holds a user's files of the kind. pattern: the files in
    it; the star is the name. reader: MODULE:FUNCTION, imported when it is used, since readers need this table.
    heading: of what `list` shows beside the description; none: not listed. column: the field, if its name is another.
    listed_as: the name under which `list` shows the kind; default: its folder.
    joined: the lists that `extends` joins, each with the fields that tell its entries apart; none: they are specs,
    which their package tells apart. pins: the mappings in which `null` drops what is inherited.
    """

    name: str
    folder: str
    pattern: str
    reader: str
    heading: str = ""
    column: str = ""
    listed_as: str = ""
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name under which `list` shows the kind."""
        return self.listed_as or self.folder

    @property
    def shipped(self) -> str:
        """Return the folder of the kind among what ships: all kinds but recipes are together in `knowledge/`."""
        return self.folder if self.folder == "recipes" else f"knowledge/{self.folder}"

    def load(self, name: str) -> object:
        """Return the value of a name or path. Raises BadInput with everything that is wrong in the file."""
        module, function = self.reader.split(":")
        reader: Reader = getattr(importlib.import_module(module), function)
        return reader(name)

    def file(self, name: str) -> str:
        """Return the path of a user's file of that name below the folder that holds `recipes/`, `systems/`, ..."""
        return f"{self.folder}/{self.pattern.replace('*', name)}"

    def name_of(self, path: PurePath) -> str:
        """Return the name of a file of this kind."""
        return path.parent.name if "/" in self.pattern else path.stem

    def holds(self, path: PurePath) -> bool:
        """Tell if a file of that path is of this kind by its place."""
        return path.match(f"{self.folder}/{self.pattern}")


RECIPE = Kind(
    name="recipe",
    folder="recipes",
    pattern="*/recipe.yaml",
    reader="uenvtool.knowledge.checks:load_recipe",
    heading="for",
    column="uarchs",
    joined={
        "specs": (),
        "couplings": ("when",),
        "cves": ("id", "package"),
        "yanked": ("package", "versions"),
        "absent": ("reason",),
    },
    pins=("require", "prefer"),
)
SYSTEM = Kind(
    name="system",
    folder="systems",
    pattern="*.yaml",
    reader="uenvtool.knowledge.system:load_system",
    heading="nodes",
)
FABRIC = Kind(
    name="fabric",
    folder="fabrics",
    pattern="*.yaml",
    reader="uenvtool.knowledge.fabric:load_fabric",
)
TUNING = Kind(
    name="tuning",
    folder="tuning",
    pattern="*.yaml",
    reader="uenvtool.knowledge.checks:load_tuning_file",
    heading="variables",
)
RUNTIME = Kind(
    name="runtime",
    folder="runtimes",
    pattern="*.yaml",
    reader="uenvtool.knowledge.runtime:load_runtime",
    heading="reads",
    column="forms",
)
LAUNCHER = Kind(
    name="launcher",
    folder="launchers",
    pattern="*.yaml",
    reader="uenvtool.knowledge.launcher:load_launcher",
    heading="starts by",
    column="commands",
)
PUBLISHED = Kind(
    name="published",
    folder="recipes",
    pattern="*/published.yaml",
    reader="uenvtool.knowledge.published:load_published",
)

RULES = Kind(
    name="rules",
    folder="rules",
    pattern="*.yaml",
    reader="uenvtool.knowledge.rule:load_rule_file",
    heading="rules",
)
FINDINGS = Kind(
    name="findings",
    folder="findings",
    pattern="*.yaml",
    reader="uenvtool.knowledge.finding:load_finding_file",
    heading="findings",
)

CONTAINER = Kind(
    name="container",
    folder="recipes",
    pattern="*/container.yaml",
    reader="uenvtool.knowledge.container:load_container",
    heading="components",
    listed_as="containers",
)
COMPONENT = Kind(
    name="component",
    folder="components",
    pattern="*.yaml",
    reader="uenvtool.knowledge.component:load_component",
    heading="versions",
)

KINDS = (RECIPE, SYSTEM, FABRIC, TUNING, RUNTIME, LAUNCHER, PUBLISHED, RULES, FINDINGS, CONTAINER, COMPONENT)
WORKAROUNDS = "workarounds"
"""The title under which `uenvtool list` has those of all tuning files, which are no kind of file."""
LISTED = tuple(kind for kind in KINDS if kind.heading)


def own_file(folder: Path) -> Path:
    """Return the file of a folder that holds one recipe, of whatever kind; a recipe's usual one if it holds none."""
    named = [folder / PurePath(kind.pattern).name for kind in (RECIPE, CONTAINER)]
    return next((file for file in named if file.is_file()), named[0])


def kind_of(path: Path, tree: Node) -> Kind:
    """Return the kind of a file: by the folder that it lies in, else the kind that knows most of its names."""
    by_place = next((kind for kind in KINDS if kind.holds(path.absolute())), None)
    return by_place or max(KINDS, key=lambda kind: len(_fields(kind) & set(tree.value)))


def _fields(kind: Kind) -> set[str]:
    return set(json.loads(schema_text(kind.name))["properties"])
