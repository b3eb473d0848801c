"""A recipe of Stackinator (versions 1, 2, 3) as recipes of ours, one for each of its environments.

What ours cannot say stands as a comment at its place, behind `left out:`; nothing is dropped without one. Source: the
documentation and schemas of Stackinator 5, 6 and 7; what these take where a recipe says nothing is in stackinator.yaml.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.yamltext import beside, comment, flow, indented, quoted, scalar
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.spec_lines import SpecLine, grouped_lines, lines_of, modern
from uenvtool.knowledge.system import GitPin
from uenvtool.knowledge.yamltree import Node, content, decoded, parse, read

REQUIRED = ("config", "compilers", "environments")
LEFT_OUT = "left out:"
FOUND = "Stackinator finds them on the machine that builds; here they are built but for those that the system has"
PACKAGES = "packages"
REFRAME = "extra/reframe"
_TAG = re.compile(r"v?\d+(\.\d+)+([.-]?\w+)?")
_PLACES = {"mount": "${mount}", "view_path": "${view_root}", "view_name": "${view}"}
Data = Mapping[str, Any]


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
    views = _ordered(environment.get("views") or {}, default)
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
        *(_left_out("unify: false", "when_possible comes nearest") if unify is False else []),
        *_rest(environment, known, f"of the environment {name}"),
        *_variants(lines_of(text, node.get("variants"))),
        *(_left_out(_said("packages", found), FOUND) if (found := environment.get("packages")) else []),
        *grouped_lines(specs, is_one=unify is True),
        *_pins(source),
        *_views(views, default),
        *_beside(source, views[0][0] if views else ""),
    ]


def _of_version_2(old: Data) -> dict[str, Any]:
    """Return an environment of version 1 in the words of version 2 (Stackinator 6, docs/porting.md)."""
    new = {name: value for name, value in old.items() if name != "mpi"}
    mpi = dict(old.get("mpi") or {})
    spec, gpu = mpi.pop("spec", None), mpi.pop("gpu", None)
    network = {**mpi, "mpi": modern(f"{spec} +{gpu}" if gpu else spec) if spec else None}
    return {**new, "network": network, "compiler": [parse_spec(one["spec"]).package for one in old["compiler"]]}


def _left_out(what: str, why: str) -> list[str]:
    return comment(f"{LEFT_OUT} {what}: {why}")


def _rest(fields: Data, known: Collection[str], whose: str) -> list[str]:
    """Return a comment for each field that ours has no place for."""
    unread = ((name, value) for name, value in fields.items() if name not in known and value is not None)
    return [line for name, value in unread for line in _left_out(_said(name, value), f"no field has it here ({whose})")]


def _said(name: str, value: object) -> str:
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


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
    yield from _rest(config, known, "of config.yaml")
    yield f"description: {scalar(str(config.get('description') or name))}"
    yield from comment("Stackinator is told the system when it builds, as `build --system` is.")
    yield from ("home: local", "uarchs: [any]")
    if config.get("store", _defaults()["mount"]) != _defaults()["mount"]:
        yield f"mount: {scalar(config['store'])}"
    pin, packages = _pin(config["spack"]), config["spack"].get("packages")
    if packages is None:
        why = "it is older than uenvtool needs, and had packages of its own: what resolves here is not the same"
        yield from _left_out(f"Spack {pin.revision} of {pin.url}", why)
        pin, repos = starter[0], {"builtin": starter[1]}
    else:
        named = {"builtin": packages} if isinstance(packages.get("repo"), str) else packages
        repos = {repo: _pin(one, repo) for repo, one in named.items()}
    yield from ("spack:", *indented(_lines_of_pin(pin), 2), "repos:")
    for repo, one in repos.items():
        yield from (f"  {repo}:", *indented(_lines_of_pin(one), 4))


def _pin(data: Data, name: str = "") -> GitPin:
    """Return what a `commit` names: Stackinator takes a commit, a tag or a branch there."""
    revision, path = str(data.get("commit") or ""), data.get("path", "")
    form = "tag" if _TAG.fullmatch(revision) else "commit" if re.fullmatch("[0-9a-f]{40}", revision) else "branch"
    paths = (path,) if path and path != f"repos/spack_repo/{name}" else ()
    return GitPin(url=data["repo"], paths=paths, **({form: revision} if revision else {}))


def _lines_of_pin(pin: GitPin) -> list[str]:
    named = {"url": pin.url, "tag": pin.tag, "commit": pin.commit, "branch": pin.branch}
    lines = [f"{name}: {scalar(value)}" for name, value in named.items() if value]
    return [*lines, *([f"paths: {flow(pin.paths)}"] if pin.paths else [])]


def _compilers(source: _Source, environment: Data) -> Iterator[str]:
    """Yield the compilers; the first one of the environment builds what names no other."""
    wanted: dict[str, tuple[str, str]] = {}
    for name, found in _versions(source):
        if wanted.setdefault(name, found) != found:
            yield from _left_out(
                f"{name}@{found[0]}", f"there is one version of a compiler; {wanted[name][0]} is the first"
            )
    main = environment["compiler"][0]
    if "bootstrap" in source.compilers:
        yield from _left_out(_said("bootstrap", source.compilers["bootstrap"]), "the system's own gcc builds the first")
    others = {name: value for name, value in source.compilers.items() if value and name not in ("bootstrap", "llvm")}
    yield from _rest(others, wanted, "of compilers.yaml; it cannot be built first")
    if main not in wanted:
        yield from _left_out(_said("compiler", main), "it cannot be built first; gcc builds what names no other")
        main = "gcc"
    lines: list[str] = []
    for name, (version, variants) in wanted.items():
        newest = str(_defaults()["newest"].get(version, "")) if name == "gcc" else ""
        exact = newest or (f"{version}.0" if name == "gcc" and version.count(".") == 1 else version)
        why = f"{version} there: the newest that Spack's packages have" if newest else ""
        if version == "system":
            yield from comment("Stackinator takes the system's gcc, as an environment without `compiler` does.")
        elif name == main:
            yield from beside(f"compiler: {scalar(f'{name}@{exact} {variants}')}", why)
        else:
            lines += beside(f"  {name}: {{version: {scalar(exact)}, variants: {scalar(variants)}}}", why)
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
    yield from _rest(network, ("mpi", "specs") if network.get("mpi") else ("mpi",), "of the network")
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
        pins += [f"  {name}: {_mapping(pin)}"] if pin else []
        comments += _rest(data, ("require",) if pin else (), f"{name} of packages.yaml; the system's file may say it")
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


def _views(views: Sequence[tuple[str, dict[str, Any]]], default: str | None) -> Iterator[str]:
    """Yield the view that is loaded if none is named, and the further ones, which have its variables."""
    if not views:
        yield from (*comment("Stackinator makes no view of it."), "view: {link: roots}")
        return
    (first, main), *others = views
    if default and default != first:
        yield from _left_out(_said("default-view", default), f"{first} is loaded if none is named")
    yield from ("view:", f"  name: {scalar(first)}", *indented([*_linked(main), *_variables(main["uenv"])], 2))
    yield from ("views:",) if others else ()
    for name, view in others:
        own = [_said(key, value) for key, value in view["uenv"].items() if value != main["uenv"].get(key)]
        why = f"it has the variables of {first} here, with paths of its own"
        left = _left_out(f"its own {'; '.join(own)}", why) if own else []
        yield from (f"  {scalar(name)}:", *indented([*_linked(view), *left], 4))


def _ordered(views: Data, default: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the views, that first which is loaded if none is named."""
    return sorted(((name, _view(view)) for name, view in views.items()), key=lambda view: view[0] != default)


def _view(view: Data | None) -> dict[str, Any]:
    """Return a view with all that Stackinator takes where it says nothing."""
    uenv = {"add_compilers": True, "prefix_paths": {}, "env_vars": {}, **((view or {}).get("uenv") or {})}
    return {"link": "roots", **(view or {}), "uenv": uenv}


def _linked(view: Data) -> list[str]:
    lists = [f"{name}: {flow(map(str, view[name]))}" for name in ("select", "exclude") if view.get(name)]
    return [f"link: {view['link']}", *lists, *_rest(view, ("link", "select", "exclude", "uenv"), "of the view")]


def _variables(uenv: Data) -> Iterator[str]:
    variables = uenv["env_vars"]
    yield from _rest(uenv, ("add_compilers", "prefix_paths", "env_vars"), "of the view")
    yield from _rest(variables, ("set", "prepend_path"), "of the view's env_vars")
    yield f"add_compilers: {'true' if uenv['add_compilers'] else 'false'}"
    prepended: dict[str, list[str]] = {}
    for name, path in (pair for one in variables.get("prepend_path", ()) for pair in one.items()):
        prepended.setdefault(name, []).insert(0, _placed(path))  # the last one comes first there
    for key, paths in (("prefix_paths", uenv["prefix_paths"]), ("prepend_path", prepended)):
        yield from (f"{key}:", *(f"  {name}: {flow(folders)}" for name, folders in paths.items())) if paths else ()
    values = {name: value for one in variables.get("set", ()) for name, value in one.items()}
    unset = {name: value for name, value in values.items() if "${" in str(value)}
    yield from _rest(unset, (), "of the view's env_vars; the shell's variables are not known here")
    yield from ("env:",) if values.keys() - unset.keys() else ()
    for name in (name for name in values if name not in unset):
        yield f"  {name}: {'null' if values[name] is None else quoted(_placed(values[name]))}"


def _placed(text: object) -> str:
    """Return a text with the places of the image as ours names them."""
    return re.sub(r"\$@(\w+)@", lambda found: _PLACES.get(found[1], found[0]), str(text))


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
    folder, packages = source.folder, source.folder / "repo" / "packages"
    read_here = {*source.files.values(), *(folder / f"{name}.yaml" for name in (*REQUIRED, PACKAGES))}
    if "modules.yaml" in source.files:
        yield "modules: modules.yaml"
    lines: list[str] = []
    if reframe := _reframe(source.reframe, view):
        lines, read_here = indented(reframe, 2), {*read_here, folder / f"{REFRAME}.yaml"}
    if "post-install" in source.files:
        why = "of `build --format stackinator`; for an image `image build --post-install FILE`, without `{{ }}` in it"
        lines += beside("  post_install: post-install", why)
    yield from ("deployment:", *lines) if lines else ()
    others = sorted({path for path in folder.rglob("*") if path.is_file()} - read_here)
    old = sorted({path.relative_to(packages).parts[0] for path in others if path.is_relative_to(packages)})
    if old:
        why = (
            "Spack before 1.0 has another form of them; port them"
            if source.version == 1
            else "links, or made by Python"
        )
        yield from _left_out(f"packages of its own, {', '.join(old)}", f"{why}; they belong into packages/")
    rest = [path for path in others if not path.is_relative_to(packages)]
    if folder / "pre-install" in rest:
        rest.remove(folder / "pre-install")
        yield from _left_out("pre-install", "no script runs before a build; a source mirror has what it fetches")
    names = ", ".join(str(path.relative_to(folder)) for path in rest)
    if names:
        yield from _left_out(names, "no field names it; `image build --meta FILE` takes a file into the image")


def _reframe(entries: Data, view: str) -> list[str]:
    """Return what the site's ReFrame tests find, if it is one entry, of the view, and all of it has a place here."""
    entry: Data = entries.get(view, {})
    if len(entries) != 1 or entry.get("views") != [view] or entry.keys() - {"features", "cc", "cxx", "ftn", "views"}:
        return []
    compilers = [f"  {name}: {scalar(entry[name])}" for name in ("cc", "cxx", "ftn") if name in entry]
    return ["reframe:", f"  features: {flow(map(str, entry.get('features', ())))}", *compilers]
