"""A recipe: the software of one uenv, by version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, SpecText, children
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.load import package_of
from uenvtool.knowledge.locate import Location, locate, shown
from uenvtool.knowledge.published import Published, PublishedTable, load_published
from uenvtool.knowledge.spec import Spec
from uenvtool.knowledge.system import GitPin
from uenvtool.knowledge.version import Versions
from uenvtool.knowledge.yamltree import Node, read

ANY_UARCH = "any"
MODULES = ("lmod", "tcl")
"""The kinds of module files that Spack makes."""
SPACK_VIEW = "spack"
"""The view that each image has for a Spack of one's own."""
MODULES_VIEW = "modules"
"""The view of an image with module files, for them."""
Link = Literal["all", "run", "roots"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """What a package must or should be: a version constraint, variants, or, for a virtual one, its provider."""

    shorthand: ClassVar[str] = "version"
    package: Key
    version: Versions | None = None
    variants: SpecText = ""
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS
    provider: SpecText = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RootSpec:
    """A spec that the recipe asks for by name."""

    shorthand: ClassVar[str] = "spec"
    unread: ClassVar[tuple[str, ...]] = ("replace",)
    spec: Spec
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Root specs that belong together."""

    name: Key
    specs: tuple[RootSpec, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantGroup:
    """Variants under a name."""

    name: Key
    values: tuple[str, ...]
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Coupling:
    """If the recipe asks for `when`, the packages of `then` must be at their versions.

    lacks: package of these to what its build would end at.
    """

    when: Spec
    then: tuple[Pin, ...]
    lacks: dict[str, str] = field(default_factory=dict)
    position: Position
    reason: str
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A variable that a view sets; `value` None unsets it."""

    shorthand: ClassVar[str] = "value"
    name: Key
    value: str | None = None
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The folder of links that users see.

    select, exclude: specs that it links alone, and that it does not link. prefix_paths: variable to folders below the
    view. prepend_path: variable to further folders, the first one first. tuning: whether it also sets the system's
    tuning.
    """

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
    """Another folder of links to the same packages; fields as of View."""

    name: Key
    position: Position
    reason: str = ""
    link: Link = "all"
    select: tuple[SpecText, ...] = ()
    exclude: tuple[SpecText, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Vulnerability:
    """A known vulnerability of the versions of a package."""

    id: str
    package: str
    versions: Versions
    fixed: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Yanked:
    """Versions of a package that their makers took back. reason: what is wrong with them."""

    package: str
    versions: Versions
    reason: str
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReFrame:
    """What a site's ReFrame tests find in a view. cc, cxx, ftn: the commands of the compilers."""

    features: tuple[str, ...] = ()
    cc: str = ""
    cxx: str = ""
    ftn: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """How a site that builds with Stackinator names, serves and tests the image.

    label: NAME/VERSION, or empty. tag: of the published image. clusters: each with the node types that it is served
    for. post_install: the text of a script that Stackinator runs before it packs, or empty.
    """

    label: str = ""
    tag: str = ""
    clusters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reframe: ReFrame = field(default_factory=ReFrame)
    post_install: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Addition:
    """A file of the recipe's own that an environment gets a copy of: a Spack package that `builtin` lacks or has older.

    path: the file on disk; target: its place below the packages folder of a repository.
    """

    target: str
    path: Path

    def text(self) -> str:
        """Return the file's text. Raises BadInput if it cannot be read as text."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read it: {error}", Position(shown(self.path)), "save it as UTF-8") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A recipe with everything that it inherits.

    compiler: builds what names no other; compilers: further ones, for specs that name them. mount: where its image is
    mounted, if not where the system mounts one.
    mpi: MPI provider to the versions that the recipe can be built with, none: any; None for a recipe without MPI.
    global_variants: the variant groups that every package prefers. unify: `when_possible` if there may be several
    versions of a package. modules: the text of a file with Spack's configuration of module files, or empty.
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
    cves: tuple[Vulnerability, ...] = ()
    yanked: tuple[Yanked, ...] = ()
    deployment: Deployment = field(default_factory=Deployment)
    published: Published | None = None
    additions: tuple[Addition, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    @property
    def roots(self) -> tuple[RootSpec, ...]:
        """Return every root spec, in order."""
        return tuple(root for group in self.groups for root in group.specs)

    @property
    def all_views(self) -> tuple[str, ...]:
        """Return the names of the views that its image has, those that Stackinator adds to a published one too."""
        return (self.view.name, *self.views, SPACK_VIEW, MODULES_VIEW)

    def supports(self, uarch: str) -> bool:
        """Tell if the recipe is meant for a node type."""
        return ANY_UARCH in self.uarchs or uarch in self.uarchs


def read_recipe(name: str, unwritten: bytes | None = None) -> Recipe:
    """Return the recipe of that name or path, resolved through `extends`; its versions are not checked together.

    unwritten: what stands for a file that is not there yet.

    Raises BadInput with every problem found, each with its position.
    """
    binder = Binder.of(locate(RECIPE, name, unwritten=unwritten), RECIPE, facts=SYSTEM_FACTS)
    tree = binder.tree
    binder.special = {PublishedTable: lambda node, _: load_published(str(_inside(binder, node)))}
    pins = {key: _pins(binder, key) for key in ("require", "prefer", "compilers")}
    recipe = binder.whole(
        Recipe, name=binder.chain[0].name, **pins, additions=_additions(binder), chain=binder.chain, tree=tree
    )
    for root in (*recipe.roots, *([recipe.compiler] if recipe.compiler else [])):
        if not root.spec.package and not binder.problems:
            binder.problem("the spec names no package", root.position, "begin it with the package's name")
    for view in recipe.views.values():
        if view.name in (recipe.view.name, SPACK_VIEW, MODULES_VIEW):
            binder.problem(f"{view.name!r} is the name of another view", view.position, "give it another one")
    for _, node in children(tree, "global_variants"):
        if node.value not in recipe.variants:
            binder.problems.append(unknown("variant group", node.value, recipe.variants, node.position))
    binder.finish()
    return replace(recipe, deployment=_deployment(binder, recipe.deployment), modules=_modules(binder))


def _pins(binder: Binder, key: str) -> dict[str, Pin]:
    """Return the pins under a key; `null` drops one that is inherited, and is none itself."""
    entries = children(binder.tree, key)
    return {package: binder.fill(Pin, node, package) for package, node in entries if node.value is not None}


def _deployment(binder: Binder, deployment: Deployment) -> Deployment:
    """Return the deployment with the text of its script. The label of a file that is extended names another image."""
    node = binder.tree.get("deployment")
    label, script = (node.get("label"), node.get("post_install")) if node else (None, None)
    is_own = label is not None and label.position.file == binder.chain[0].shown
    text = Addition("post-install", _inside(binder, script)).text() if script else ""
    return replace(deployment, label=deployment.label if is_own else "", post_install=text)


def _modules(binder: Binder) -> str:
    """Return the text of the file of module configuration; empty without one. Raises BadInput if it makes none."""
    node = binder.tree.get("modules")
    if node is None:
        return ""
    path = _inside(binder, node)
    tree = read(path, shown(path))
    try:
        made = module_kinds(tree.at(("modules", "default")).plain())
    except (KeyError, TypeError, AttributeError):
        made = []
    if len(made) != 1 or made[0] not in MODULES:
        hint = "write `modules: {default: {enable: [lmod], ...}}`, as Spack's documentation has it"
        raise BadInput(f"no one kind of module files is made; there are {', '.join(MODULES)}", tree.position, hint)
    return Addition("modules.yaml", path).text()


def module_kinds(default: Mapping[str, Any]) -> list[str]:
    """Return the kinds of module files that a configuration makes: without `enable` and `roots` tcl, as Stackinator."""
    return [str(kind) for kind in default.get("enable") or default.get("roots") or ("tcl",)]


def _inside(binder: Binder, node: Node) -> Path:
    return inside(binder.directory_of(node), node)


def _additions(binder: Binder) -> tuple[Addition, ...]:
    tree = binder.tree
    folders = [location.path.parent / "packages" for location in binder.chain if location.path.name == "recipe.yaml"]
    named = {package_of(spec) for _, group in children(tree, "groups") for _, spec in children(group, "specs")}
    pinned = {package for package, node in children(tree, "require") if node.value is not None}
    dropped = {name.replace("-", "_") for name in binder.removed - named - pinned}
    return tuple(addition for addition in additions_of(folders) if addition.target.split("/")[0] not in dropped)


def additions_of(folders: list[Path]) -> tuple[Addition, ...]:
    """Return the package files below folders of additions; a file of an earlier folder hides that of a later one.

    Raises BadInput for a link that leads out of its folder.
    """
    found: dict[str, Addition] = {}
    for folder in reversed(folders):
        for path in sorted(folder.rglob("*")):
            if "__pycache__" in path.parts or not path.is_file():
                continue
            target = path.relative_to(folder).as_posix()
            if not path.resolve().is_relative_to(folder.resolve()):
                raise BadInput("leads out of the recipe's folder", Position(shown(path)), "copy the file into it")
            found[target] = Addition(target, path)
    return tuple(found[target] for target in sorted(found))


def inside(folder: Path, node: Node) -> Path:
    """Return the file that a path names within the folder of a recipe.

    Raises BadInput if it leads out of the folder or is not there.
    """
    path = folder / str(node.value)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"{node.value!r} leads out of the recipe's folder", node.position, "copy the file into it")
    if not path.is_file():
        raise BadInput(f"{node.value!r} is not in the recipe's folder", node.position, f"it is looked for in {folder}")
    return path
