"""A recipe: the list of software in an image, with versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, SpecText, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.load import package_of
from uenvtool.knowledge.locate import Location, locate, shown
from uenvtool.knowledge.packages import Coupling, Pin
from uenvtool.knowledge.published import Published, PublishedTable, load_published
from uenvtool.knowledge.spec import Spec
from uenvtool.knowledge.system import GitPin, System
from uenvtool.knowledge.yamltree import Node, read

ANY_UARCH = "any"
MODULES = ("lmod", "tcl")
"""The kinds of module files that Spack can generate."""
SPACK_VIEW = "spack"
"""The name of the view that lets users run their own Spack on top of an image."""
MODULES_VIEW = "modules"
"""The name of the view for the module files of an image."""
Link = Literal["all", "run", "roots"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RootSpec:
    """A spec that the recipe requests directly."""

    shorthand: ClassVar[str] = "spec"
    unread: ClassVar[tuple[str, ...]] = ("replace",)
    spec: Spec
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A named group of root specs, which a recipe that extends this one can change."""

    name: Key
    specs: tuple[RootSpec, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantGroup:
    """A named group of variants, which packages prefer if the recipe selects the group."""

    values: tuple[str, ...]
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A variable that a view sets. If `value` is None, the view unsets the variable."""

    shorthand: ClassVar[str] = "value"
    name: Key
    value: str | None = None
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The view: the directory of links to the installed packages, and the variables that it sets.

    select: The specs that the view links. If it is empty, the view links all specs.
    """

    shorthand: ClassVar[str] = "load"
    load: Literal["default", "none"] = "default"
    name: str = "default"
    link: Link = "all"
    select: tuple[SpecText, ...] = ()
    exclude: tuple[SpecText, ...] = ()
    add_compilers: bool = False
    prefix_paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prepend_path: dict[str, tuple[str, ...]] = field(default_factory=dict)
    env: tuple[Variable, ...] = ()
    tuning: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherView:
    """Another view of the same packages, with the fields of View."""

    name: Key
    position: Position
    reason: str = ""
    link: Link = "all"
    select: tuple[SpecText, ...] = ()
    exclude: tuple[SpecText, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReFrame:
    """The properties of a view that the site's ReFrame tests use. cc, cxx, ftn: The compiler commands.

    text: The content of the site's own file, which replaces the other fields. The recipe file contains only its path.
    """

    shorthand: ClassVar[str] = "text"
    text: str = ""
    features: tuple[str, ...] = ()
    cc: str = ""
    cxx: str = ""
    ftn: str = ""


@dataclass(frozen=True, slots=True)
class Addition:
    """A Spack package file that the recipe provides because `builtin` lacks the package or the version.

    path: The file on disk, which is copied to the environment.
    target: The path of the copy, relative to the packages directory of a repository.
    """

    target: str
    path: Path

    def text(self) -> str:
        """Return the text of the file. Raises BadInput if it cannot be read as text."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"cannot read the file: {error}"
            raise BadInput(message, Position(shown(self.path)), "save the file as UTF-8") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """The image name, targets and tests for a site that builds the image with Stackinator.

    post_install: The content of the script. The recipe's YAML file contains only the path of the script.
    files: More files of the Stackinator recipe, such as a helper of `post_install`. The YAML file contains their paths.
    """

    name: str = ""
    label: str = ""
    tag: str = ""
    clusters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reframe: ReFrame = field(default_factory=ReFrame)
    post_install: str = ""
    files: tuple[Addition, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A recipe with everything that it inherits.

    mpi: An empty mapping accepts any MPI. None means that the recipe does not use MPI.
    modules: The content of Spack's configuration for module files. The recipe file contains only its path.
    """

    name: str
    description: str
    home: str
    uarchs: tuple[str, ...]
    spack: GitPin
    repos: dict[str, GitPin]
    compiler: RootSpec | None = None
    compilers: dict[str, Pin] = field(default_factory=dict)
    python: Pin | None = None
    mount: str = ""
    mpi: dict[str, Pin] | None = None
    variants: dict[str, VariantGroup] = field(default_factory=dict)
    global_variants: tuple[str, ...] = ()
    groups: tuple[Group, ...]
    require: dict[str, Pin] = field(default_factory=dict)
    prefer: dict[str, Pin] = field(default_factory=dict)
    couplings: tuple[Coupling, ...] = ()
    view: View
    views: dict[str, FurtherView] = field(default_factory=dict)
    unify: Literal["True", "when_possible"] = "True"
    modules: str = ""
    deployment: Deployment = field(default_factory=Deployment)
    published: Published | None = None
    additions: tuple[Addition, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    @property
    def roots(self) -> tuple[RootSpec, ...]:
        return tuple(root for group in self.groups for root in group.specs)

    @property
    def all_views(self) -> tuple[str, ...]:
        """Return the names of all views of the image, including those of Stackinator in a published image."""
        return (self.view.name, *self.views, SPACK_VIEW, MODULES_VIEW)

    def supports(self, uarch: str) -> bool:
        return ANY_UARCH in self.uarchs or uarch in self.uarchs


def read_recipe(name: str, unwritten: bytes | None = None) -> Recipe:
    """Return the recipe with this name or path, including inherited values. Raises BadInput with all problems.

    `load_recipe` also checks versions. unwritten: The content to use instead of the file, which may not exist yet.
    """
    binder = Binder.of(locate(RECIPE, name, unwritten=unwritten), RECIPE, facts=SYSTEM_FACTS)
    tree = binder.tree
    binder.special = {
        PublishedTable: lambda node, _: load_published(str(_inside(binder, node))),
        Addition: lambda node, _: Addition(str(node.value), _inside(binder, node)),
    }
    pins = {
        key: {name: binder.fill(Pin, node, name) for name, node in children(tree, key) if node.value is not None}
        for key in ("require", "prefer", "compilers")
    }
    recipe = binder.whole(
        Recipe, name=binder.chain[0].name, **pins, additions=_additions(binder), chain=binder.chain, tree=tree
    )
    for root in (*recipe.roots, *([recipe.compiler] if recipe.compiler else [])):
        if not root.spec.package and not binder.problems:
            binder.problem("the spec has no package name", root.position, "begin the spec with the name of a package")
    for view in recipe.views.values():
        if view.name in (recipe.view.name, SPACK_VIEW, MODULES_VIEW):
            binder.problem(f"the view name {view.name!r} is already used", view.position, "rename this view")
    for _, node in children(tree, "global_variants"):
        if node.value not in recipe.variants:
            binder.problems.append(unknown("variant group", node.value, recipe.variants, node.position))
    binder.finish()
    return replace(recipe, deployment=_deployment(binder, recipe.deployment), modules=_modules(binder))


def facts_with_paths(recipe: Recipe, system: System, facts: Facts) -> Facts:
    """Return the facts that a view's variables can contain: the facts of a node, and the paths of the image."""
    view = f"{system.mount}/env/{recipe.view.name}" if system.mount else "$env/.spack-env/" + recipe.view.name
    return {**facts, "mount": system.mount, "view": recipe.view.name, "view_root": view}


def _deployment(binder: Binder, deployment: Deployment) -> Deployment:
    fields = dict(children(binder.tree, "deployment"))

    def text(name: str) -> str:
        is_path = name in fields and isinstance(fields[name].value, str)
        return Addition(name, _inside(binder, fields[name])).text() if is_path else ""

    # an inherited name is that of the image of the extended recipe
    own = {name for name, field in fields.items() if field.position.file == binder.chain[0].shown}
    return replace(
        deployment,
        name=deployment.name if "name" in own else "",
        label=deployment.label if "label" in own else "",
        reframe=replace(deployment.reframe, text=text("reframe")),
        post_install=text("post_install"),
    )


def _modules(binder: Binder) -> str:
    node = binder.tree.get("modules")
    if node is None:
        return ""
    path = _inside(binder, node)
    tree = read(path, shown(path))
    try:
        kinds = module_kinds(tree.at(("modules", "default")).plain())
    except (KeyError, TypeError, AttributeError):
        kinds = []
    if len(kinds) != 1 or kinds[0] not in MODULES:
        hint = "write `modules: {default: {enable: [lmod], ...}}`, as described in Spack's documentation"
        raise BadInput(f"the file must enable one kind of module files: {' or '.join(MODULES)}", tree.position, hint)
    return Addition("modules.yaml", path).text()


def module_kinds(default: Mapping[str, Any]) -> list[str]:
    """Return the types of module files that a configuration generates. The default is tcl, as in Stackinator."""
    return [str(kind) for kind in default.get("enable") or default.get("roots") or ("tcl",)]


def _additions(binder: Binder) -> tuple[Addition, ...]:
    tree, chain = binder.tree, binder.chain
    named = {package_of(spec) for _, group in children(tree, "groups") for _, spec in children(group, "specs")}
    pinned = {package for package, node in children(tree, "require") if node.value is not None}
    dropped = {name.replace("-", "_") for name in binder.removed - named - pinned}
    additions: dict[str, Addition] = {}
    directories = [file.path.parent / "packages" for file in chain if file.path.name == "recipe.yaml"]
    for directory in reversed(directories):  # a file hides the same file of an extended recipe
        for path in sorted(directory.rglob("*")):
            target = path.relative_to(directory).as_posix()
            if "__pycache__" in path.parts or not path.is_file() or target.split("/")[0] in dropped:
                continue
            if not path.resolve().is_relative_to(directory.resolve()):
                hint = "replace the link with a copy of the file"
                raise BadInput("the link leads to a file outside the recipe's directory", Position(shown(path)), hint)
            additions[target] = Addition(target, path)
    return tuple(additions[target] for target in sorted(additions))


def _inside(binder: Binder, node: Node) -> Path:
    directory = binder.directory_of(node)
    path = directory / str(node.value)
    if not path.resolve().is_relative_to(directory.resolve()):
        hint = "copy the file into the recipe's directory"
        raise BadInput(f"{node.value!r} is outside the recipe's directory", node.position, hint)
    if not path.is_file():
        hint = f"create the file in {directory}, or correct its name"
        raise BadInput(f"file not found: {node.value!r}", node.position, hint)
    return path
