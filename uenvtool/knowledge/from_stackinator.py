"""A recipe of Stackinator (versions 1, 2, 3) as recipes of ours, one for each of its environments.

What ours cannot say stands as a comment at its place, behind `left out:`; nothing is dropped without one. Source: the
documentation and schemas of Stackinator 5, 6 and 7; what these take where a recipe says nothing is in stackinator.yaml.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.yamltext import comment, flow, indented, scalar, with_comment
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.spec_lines import SpecLine, grouped_lines, lines_of, modern
from uenvtool.knowledge.stackinator_view import LEFT_OUT, Data, left_out, ordered, rest_of, said, views_of
from uenvtool.knowledge.system import GitPin
from uenvtool.knowledge.yamltree import Node, content, decoded, parse, read

REQUIRED = ("config", "compilers", "environments")
FOUND = "Stackinator finds them on the machine that builds; here they are built but for those that the system has"
PACKAGES = "packages"
REFRAME = "extra/reframe"
_TAG = re.compile(r"v?\d+(\.\d+)+([.-]?\w+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A recipe: the lines of its recipe.yaml behind the header, and the files beside it, by their name there."""

    lines: Sequence[str]
    files: Mapping[str, Path]


class _File(NamedTuple):
    text: str
    tree: Node
    data: Data


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """A recipe of Stackinator. compilers: name to version and variants. files: those that ours has beside it too."""

    folder: Path
    version: int
    config: Data
    compilers: Data
    packages: Data
    reframe: Data
    files: Mapping[str, Path] = field(default_factory=dict)


def is_stackinator(folder: Path) -> bool:
    """Tell if a folder holds a recipe of Stackinator."""
    return all((folder / f"{name}.yaml").is_file() for name in REQUIRED)


def read_stackinator(folder: Path, starter: tuple[GitPin, GitPin]) -> dict[str, Imported]:
    """Return the recipes of ours by the names of the environments there.

    starter: the Spack and the packages for a recipe of version 1, whose Spack is older than uenvtool can drive. Raises
    BadInput with the place of what is no YAML, or not the form of such a recipe.
    """
    config, compilers, (text, tree, environments) = (_file(folder, name) for name in REQUIRED)
    reframe: Data = {}
    with contextlib.suppress(BadInput):  # no part of the recipe to Stackinator, which copies it
        reframe = _file(folder, REFRAME).data
    try:
        source = _Source(
            folder=folder,
            version=config.data.get("version", 1),
            config=config.data,
            compilers=compilers.data,
            packages=_file(folder, PACKAGES).data[PACKAGES] if (folder / f"{PACKAGES}.yaml").is_file() else {},
            reframe=reframe,
            files=dict(_files(folder, config.data)),
        )
        return {
            name: Imported(lines=_recipe(source, name, data, (text, tree.value[name]), starter), files=source.files)
            for name, data in environments.items()
        }
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        wrong = f"a field has not the form of version {config.data.get('version', 1)}"
        if isinstance(error, (KeyError, ValueError)):  # a spec that is none tells itself
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        hint = "its form: https://eth-cscs.github.io/stackinator/recipes"
        raise BadInput(f"not a recipe of Stackinator: {wrong}", Position(shown(folder)), hint) from error


def _file(folder: Path, name: str) -> _File:
    """Return a file as our reader refuses it, and with the words that Stackinator's knows (`True`, `Null`, `no`)."""
    import yaml

    path = folder / f"{name}.yaml"
    text = content(path, shown(path))
    return _File(decoded(text, shown(path)), parse(text, shown(path)), yaml.load(text, yaml.CSafeLoader))


def _recipe(
    source: _Source, name: str, data: Data, place: tuple[str, Node], starter: tuple[GitPin, GitPin]
) -> list[str]:
    """Return the lines of the recipe of an environment. place: the text that it is in, and its node."""
    environment = _of_version_2(data) if source.version == 1 else data
    network, (text, node) = environment.get("network") or {}, place
    default = source.config.get("default-view")
    views = ordered(environment.get("views") or {}, default)
    unify, of_network = environment.get("unify", True), node.get("network")
    specs = {
        "network": lines_of(text, of_network.get("specs") if of_network and network.get("mpi") else None),
        "specs": lines_of(text, node.get("specs"), is_old=source.version == 1),
    }
    known = ("compiler", "specs", "network", "unify", "variants", "views", "packages")
    return [
        *_config(source, name, starter),
        *_compilers(source, environment),
        *_mpi(network),
        *([] if unify is True else ["unify: when_possible"]),
        *(left_out("unify: false", "when_possible comes nearest") if unify is False else []),
        *rest_of(environment, known, f"of the environment {name}"),
        *_variants(lines_of(text, node.get("variants"))),
        *(left_out(said("packages", found), FOUND) if (found := environment.get("packages")) else []),
        *grouped_lines(specs, is_one=unify is True),
        *_pins(source),
        *views_of(views, default),
        *_beside(source, views[0][0] if views else ""),
    ]


def _of_version_2(old: Data) -> dict[str, Any]:
    """Return an environment of version 1 in the words of version 2 (Stackinator 6, docs/porting.md)."""
    new = {name: value for name, value in old.items() if name != "mpi"}
    mpi = dict(old.get("mpi") or {})
    spec, gpu = mpi.pop("spec", None), mpi.pop("gpu", None)
    network = {**mpi, "mpi": modern(f"{spec} +{gpu}" if gpu else spec) if spec else None}
    return {**new, "network": network, "compiler": [parse_spec(one["spec"]).package for one in old["compiler"]]}


@functools.cache
def _defaults() -> dict[str, Any]:
    path = Path(__file__).parent / "stackinator.yaml"
    found: dict[str, Any] = read(path, path.name).plain()
    return found


def _config(source: _Source, name: str, starter: tuple[GitPin, GitPin]) -> Iterator[str]:
    config = source.config
    read_from = f"Read from a recipe of Stackinator, version {source.version}, which calls its image {config['name']}."
    yield from comment(f"{read_from} What this file cannot say stands in comments, `{LEFT_OUT[:-1]}`.")
    known = ("name", "store", "spack", "description", "version", "modules", "default-view")
    yield from rest_of(config, known, "of config.yaml")
    yield f"description: {scalar(str(config.get('description') or name))}"
    yield from comment("Stackinator is told the system when it builds, as `build --system` is.")
    yield from ("home: local", "uarchs: [any]")
    if config.get("store", _defaults()["mount"]) != _defaults()["mount"]:
        yield f"mount: {scalar(config['store'])}"
    pin, packages = _pin(config["spack"]), config["spack"].get("packages")
    if packages is None:
        why = "it is older than uenvtool needs, and had packages of its own: what resolves here is not the same"
        yield from left_out(f"Spack {pin.revision} of {pin.url}", why)
        pin, repos = starter[0], {"builtin": starter[1]}
    else:
        named = {"builtin": packages} if isinstance(packages.get("repo"), str) else packages
        repos = {repo: _pin(one, repo) for repo, one in named.items()}
    yield from ("spack:", *lines_of_pin(pin), "repos:", *lines_of_repos(repos))


def _pin(data: Data, name: str = "") -> GitPin:
    """Return what a `commit` names: Stackinator takes a commit, a tag or a branch there."""
    revision, path = str(data.get("commit") or ""), data.get("path", "")
    form = "tag" if _TAG.fullmatch(revision) else "commit" if re.fullmatch("[0-9a-f]{40}", revision) else "branch"
    paths = (path,) if path and path != f"repos/spack_repo/{name}" else ()
    return GitPin(url=data["repo"], paths=paths, **({form: revision} if revision else {}))


def lines_of_pin(pin: GitPin) -> list[str]:
    """Return what stands below the name of a git repository in a recipe."""
    named = {"url": pin.url, "tag": pin.tag, "commit": pin.commit, "branch": pin.branch}
    lines = [f"{name}: {scalar(value)}" for name, value in named.items() if value]
    return indented([*lines, *([f"paths: {flow(pin.paths)}"] if pin.paths else [])], 2)


def lines_of_repos(repos: Mapping[str, GitPin]) -> list[str]:
    """Return what stands below `repos:` in a recipe."""
    return [line for name, pin in repos.items() for line in (f"  {scalar(name)}:", *indented(lines_of_pin(pin), 2))]


def _compilers(source: _Source, environment: Data) -> Iterator[str]:
    """Yield the compilers; the first one of the environment builds what names no other."""
    wanted: dict[str, tuple[str, str]] = {}
    for name, found in _versions(source):
        if wanted.setdefault(name, found) != found:
            yield from left_out(
                f"{name}@{found[0]}", f"there is one version of a compiler; {wanted[name][0]} is the first"
            )
    main = environment["compiler"][0]
    if "bootstrap" in source.compilers:
        yield from left_out(said("bootstrap", source.compilers["bootstrap"]), "the system's own gcc builds the first")
    others = {name: value for name, value in source.compilers.items() if value and name not in ("bootstrap", "llvm")}
    yield from rest_of(others, wanted, "of compilers.yaml; it cannot be built first")
    if main not in wanted:
        yield from left_out(said("compiler", main), "it cannot be built first; gcc builds what names no other")
        main = "gcc"
    lines: list[str] = []
    for name, (version, variants) in wanted.items():
        newest = str(_defaults()["newest"].get(version, "")) if name == "gcc" else ""
        exact = newest or (f"{version}.0" if name == "gcc" and version.count(".") == 1 else version)
        why = f"{version} there: the newest that Spack's packages have" if newest else ""
        if version == "system":
            yield from comment("Stackinator takes the system's gcc, as an environment without `compiler` does.")
        elif name == main:
            yield from with_comment(f"compiler: {scalar(f'{name}@{exact} {variants}')}", why)
        else:
            lines += with_comment(f"  {name}: {{version: {scalar(exact)}, variants: {scalar(variants)}}}", why)
    yield from ("compilers:", *lines) if lines else ()


def _versions(source: _Source) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each compiler that can be built first with its version and variants."""
    variants = _defaults()["variants"]
    filled = {name: data for name, data in source.compilers.items() if data}
    for name, data in filled.items():
        old = [parse_spec(spec) for spec in data.get("specs", ())]
        found = [(spec.package, str(spec.versions or "")) for spec in old] or [(name, str(data.get("version", "")))]
        for compiler, version in found:
            if compiler in variants and version:
                usual = f"{_defaults()['gcc'][str(source.version)]} " if compiler == "gcc" else ""
                yield compiler, (version, data.get("spec") or usual + variants[compiler])


def _mpi(network: Data) -> Iterator[str]:
    yield from rest_of(network, ("mpi", "specs") if network.get("mpi") else ("mpi",), "of the network")
    if text := network.get("mpi"):
        spec = parse_spec(text)
        words = " ".join(filter(None, [*spec.words.values(), spec.dependencies]))
        fields = {"version": str(spec.versions or ""), "variants": words}
        yield from ("mpi:", f"  {spec.package}: {_mapping(fields)}")


def _mapping(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {scalar(value)}" for name, value in fields.items() if value) + "}"


def _variants(lines: Sequence[SpecLine]) -> Iterator[str]:
    if lines:
        own = [line for one in lines for line in indented(one.lines(), 4)]
        yield from ("variants:", "  all:", "    values:", *own, "global_variants: [all]")


def _pins(source: _Source) -> Iterator[str]:
    """Yield what packages.yaml requires of single packages; what else it says is for the system's file."""
    pins: list[str] = []
    comments: list[str] = []
    for name, data in source.packages.items():
        texts = [data["require"]] if isinstance(data.get("require"), str) else data.get("require", [])
        pin = None if name == "all" else _required(name, texts)
        pins += [f"  {scalar(name)}: {_mapping(pin)}"] if pin else []
        comments += rest_of(data, ("require",) if pin else (), f"{name} of packages.yaml; the system's file may say it")
    yield from comments
    yield from ("require:", *pins) if pins else ()


def _required(package: str, texts: Iterable[object]) -> dict[str, str] | None:
    """Return what a pin says; None if the requirement is more than version, variants and a provider."""
    found = {"version": "", "variants": "", "provider": ""}
    for text in texts:
        if not isinstance(text, str):
            return None
        spec = parse_spec(text)
        if spec.package not in ("", package):
            found["provider"] = text
            continue
        found["version"] = str(spec.versions or found["version"])
        found["variants"] = " ".join(filter(None, [found["variants"], *spec.words.values(), spec.dependencies]))
    return found if any(found.values()) else None


def _files(folder: Path, config: Data) -> Iterator[tuple[str, Path]]:
    """Yield the files that a recipe has beside it here: its name here, and the file there."""
    for name in ("modules.yaml", "post-install"):
        if (folder / name).is_file() and (name != "modules.yaml" or config.get("modules", True)):
            yield name, folder / name
    packages = folder / "repo" / "packages"
    for path in sorted(packages.rglob("*")) if config.get("version", 1) > 1 else ():
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            yield f"packages/{path.relative_to(packages).as_posix()}", path


def _beside(source: _Source, view: str) -> Iterator[str]:
    """Yield what names the files beside the recipe, and which of those there have no place here."""
    folder = source.folder
    read_here = {*source.files.values(), *(folder / f"{name}.yaml" for name in (*REQUIRED, PACKAGES))}
    if "modules.yaml" in source.files:
        yield "modules: modules.yaml"
    lines: list[str] = []
    if reframe := _reframe(source.reframe, view):
        lines, read_here = indented(reframe, 2), {*read_here, folder / f"{REFRAME}.yaml"}
    if "post-install" in source.files:
        why = "of `build --format stackinator`; for an image `image build --post-install FILE`, without `{{ }}` in it"
        lines += with_comment("  post_install: post-install", why)
    yield from ("deployment:", *lines) if lines else ()
    others = {path for path in folder.rglob("*") if path.is_file()} - read_here
    names = sorted({"/".join(path.relative_to(folder).parts[:3]) for path in others})  # a package of its own is one
    for start, why in (
        ("pre-install", "no script runs before a build; a source mirror has what it fetches"),
        ("repo/", "packages of Spack before 1.0 have another form; port them into packages/"),
        ("", "no field names it; `image build --meta FILE` takes a file into the image"),
    ):
        told = [name for name in names if name.startswith(start)]
        names = [name for name in names if name not in told]
        yield from left_out(", ".join(told), why) if told else ()


def _reframe(entries: Data, view: str) -> list[str]:
    """Return what the site's ReFrame tests find, if it is one entry, of the view, and all of it has a place here."""
    entry: Data = entries.get(view, {})
    if len(entries) != 1 or entry.get("views") != [view] or entry.keys() - {"features", "cc", "cxx", "ftn", "views"}:
        return []
    compilers = [f"  {name}: {scalar(entry[name])}" for name in ("cc", "cxx", "ftn") if name in entry]
    return ["reframe:", f"  features: {flow(map(str, entry.get('features', ())))}", *compilers]
