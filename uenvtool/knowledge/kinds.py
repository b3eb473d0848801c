"""The kinds of knowledge files: their directories, their readers, and how `extends` joins their lists.

To add a kind, add a row here, a schema of the same name and a reader. The commands `validate`, `show`, `list` and
`schema`, and `extends`, then support it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from uenvtool.knowledge.schema import schema
from uenvtool.knowledge.yamltree import Node


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of knowledge file.

    directory: The directory that contains a user's files of this kind.
    reader: MODULE:FUNCTION, which is imported on use because readers import this table.
    pattern: The glob for the files in that directory. Its `*` matches the name.
    heading: The heading of the column between name and description in `list`. If it is empty, `list` omits the kind.
    column: The field in this column, if its name differs from the heading.
    listed_as: The name of the kind in `list`. The default is the directory.
    joined: The lists that `extends` joins, each with the fields that identify an entry. Lists without fields contain
        specs, which are identified by their package.
    pins: The mappings in which `null` removes an inherited entry.
    """

    name: str
    directory: str
    reader: str
    pattern: str = "*.yaml"
    heading: str = ""
    column: str = ""
    listed_as: str = ""
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the kind in `uenvtool list`."""
        return self.listed_as or self.directory

    @property
    def shipped(self) -> str:
        """Return the directory of the built-in files. All kinds except recipes are in `knowledge/`."""
        return self.directory if self.directory == "recipes" else f"knowledge/{self.directory}"

    def load(self, name: str) -> object:
        """Load the file with this name or path. Raises BadInput with all problems in the file."""
        reader: Callable[[str], object] = pkgutil.resolve_name(self.reader)
        return reader(name)

    def file(self, name: str) -> str:
        """Return the path of a user's file with this name, relative to the parent directory of `recipes/`."""
        return f"{self.directory}/{self.pattern.replace('*', name)}"

    def name_of(self, path: PurePath) -> str:
        return path.parent.name if "/" in self.pattern else path.stem

    def holds(self, path: PurePath) -> bool:
        return path.match(f"{self.directory}/{self.pattern}")


RECIPE = Kind(
    "recipe",
    "recipes",
    "uenvtool.knowledge.checks:load_recipe",
    pattern="*/recipe.yaml",
    heading="for",
    column="uarchs",
    joined={"specs": (), "couplings": ("when",), "absent": ("reason",)},
    pins=("require", "prefer"),
)
SYSTEM = Kind("system", "systems", "uenvtool.knowledge.system:load_system", heading="nodes")
FABRIC = Kind("fabric", "fabrics", "uenvtool.knowledge.fabric:load_fabric")
PACKAGES = Kind(
    "packages",
    "packages",
    "uenvtool.knowledge.packages:load_package_facts",
    joined={"couplings": ("when",), "cves": ("id", "package"), "yanked": ("package", "versions")},
)
TUNING = Kind("tuning", "tuning", "uenvtool.knowledge.checks:load_tuning_file", heading="variables")
RUNTIME = Kind("runtime", "runtimes", "uenvtool.knowledge.runtime:load_runtime", heading="reads", column="forms")
LAUNCHER = Kind(
    "launcher", "launchers", "uenvtool.knowledge.launcher:load_launcher", heading="starts by", column="commands"
)
PUBLISHED = Kind("published", "recipes", "uenvtool.knowledge.published:load_published", pattern="*/published.yaml")
RULES = Kind("rules", "rules", "uenvtool.knowledge.rule:load_rule_file", heading="rules")
FINDINGS = Kind("findings", "findings", "uenvtool.knowledge.finding:load_finding_file", heading="findings")
REFERENCE = Kind(
    "reference", "references", "uenvtool.knowledge.reference:load_references", heading="for", column="systems"
)
CONTAINER = Kind(
    "container",
    "recipes",
    "uenvtool.knowledge.container:load_container",
    pattern="*/container.yaml",
    heading="components",
    listed_as="containers",
)
COMPONENT = Kind("component", "components", "uenvtool.knowledge.component:load_component", heading="versions")
KINDS = (
    *(RECIPE, SYSTEM, FABRIC, PACKAGES, TUNING, RUNTIME, LAUNCHER),
    *(PUBLISHED, RULES, FINDINGS, REFERENCE, CONTAINER, COMPONENT),
)
WORKAROUNDS = "workarounds"
"""The name under which `uenvtool list` shows the workarounds of all tuning files. They are not a kind of file."""
LISTED = tuple(kind for kind in KINDS if kind.heading)


def recipe_file(directory: Path) -> Path:
    """Return the path of the recipe or container recipe in a directory. If it has neither, return a recipe's path."""
    named = [directory / PurePath(kind.pattern).name for kind in (RECIPE, CONTAINER)]
    return next((file for file in named if file.is_file()), named[0])


def kind_of(path: Path, tree: Node) -> Kind:
    """Return the kind of a file: the kind of its directory, or else the kind whose schema matches most keys."""
    by_place = next((kind for kind in KINDS if kind.holds(path.absolute())), None)
    return by_place or max(KINDS, key=lambda kind: len(tree.value.keys() & schema(kind.name)["properties"]))
