"""Converts a Stackinator recipe (versions 1, 2, 3) to uenvtool recipes, one per environment.

A setting that a uenvtool recipe cannot express becomes a comment at its position, which starts with `left out:`.
Nothing is dropped without such a comment. Source: the documentation and schemas of Stackinator 5, 6 and 7.
stackinator.yaml contains the defaults of these versions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.limits import limited
from uenvtool.core.yamltext import comment, flow, indented, scalar, with_comment
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.spec_lines import SpecLine, grouped_lines, lines_of, modern
from uenvtool.knowledge.stackinator_view import LEFT_OUT, Data, field_text, left_out, ordered, rest_of, views_of
from uenvtool.knowledge.system import GitPin
from uenvtool.knowledge.yaml_comments import Comments
from uenvtool.knowledge.yamltree import MAX_BYTES, Node, content, decoded, parse, read

REQUIRED = ("config", "compilers", "environments")
PACKAGES_REASON = "Stackinator uses the build machine's packages; uenvtool builds them unless the system has them"
PACKAGES = "packages"
REFRAME = "extra/reframe.yaml"
LARGEST = 10_000_000
"""The maximum number of bytes of a file that is copied next to a recipe, such as a Spack package or a patch."""
_FILE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+-]*")
_ALL = range(1, MAX_BYTES)
_TAG = re.compile(r"v?\d+(\.\d+)+([.-]?\w+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A converted recipe: the lines of its recipe.yaml after the header, and the files that are copied next to it.

    files: For each copied file, the original path, by the copy's path relative to the recipe.
    """

    lines: Sequence[str]
    files: Mapping[str, Path]


class _File(NamedTuple):
    text: str
    tree: Node
    data: Data


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    directory: Path
    version: int
    config: Data
    compilers: Data
    read: Mapping[str, _File]
    files: Mapping[str, Path]


def is_stackinator(directory: Path) -> bool:
    """Return whether a directory contains a Stackinator recipe."""
    return all((directory / f"{name}.yaml").is_file() for name in REQUIRED)


def read_stackinator(directory: Path, starter: tuple[GitPin, GitPin]) -> dict[str, Imported]:
    """Return the converted recipes by the names of their environments.

    starter: The Spack and the package repository that replace those of a version 1 recipe, whose Spack is too old.

    Raises BadInput if a file is not valid YAML or does not have the form of a Stackinator recipe.
    """
    read = {name: _file(directory, name) for name in (*REQUIRED, PACKAGES) if (directory / f"{name}.yaml").is_file()}
    config, compilers, environments = (read[name] for name in REQUIRED)
    if not environments.data:
        raise BadInput("the recipe has no environment", environments.tree.position, "add one, or use another directory")
    files = dict(_files(directory, config.data))
    files |= {name: path for name, path in _other_files(directory).items() if _can_be_copied(name, path)}
    try:
        source = _Source(
            directory=directory,
            version=config.data.get("version", 1),
            config=config.data,
            compilers=compilers.data,
            read=read,
            files=files,
        )
        return {
            name: Imported(lines=_recipe(source, name, data, starter), files=source.files)
            for name, data in environments.data.items()
        }
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        wrong = f"a field does not have the form of version {config.data.get('version', 1)}"
        if isinstance(error, (KeyError, ValueError)):  # the error of an invalid spec is already a message
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        hint = "compare it with https://eth-cscs.github.io/stackinator/recipes"
        raise BadInput(f"not a valid Stackinator recipe: {wrong}", Position(shown(directory)), hint) from error


def _file(directory: Path, name: str) -> _File:
    import yaml

    path = directory / f"{name}.yaml"
    text = content(path, shown(path))
    tree = parse(text, shown(path))
    with limited(shown(path)):
        data = yaml.load(text, yaml.CSafeLoader)  # types `True`, `Null` and `no` as Stackinator does
    return _File(decoded(text, shown(path)), tree, data)


def _recipe(source: _Source, name: str, data: Data, starter: tuple[GitPin, GitPin]) -> list[str]:
    environment = _of_version_2(data) if source.version == 1 else data
    network, node = environment.get("network") or {}, source.read["environments"].tree.value[name]
    all_comments = {file: Comments(read.text) for file, read in source.read.items()}
    comments = all_comments["environments"]
    default = source.config.get("default-view")
    views = ordered(environment.get("views") or {}, default)
    unify, of_network = environment.get("unify", True), node.get("network")
    specs = {
        "network": lines_of(comments, of_network.get("specs") if of_network and network.get("mpi") else None),
        "specs": lines_of(comments, node.get("specs"), is_old=source.version == 1),
    }
    mpi = node.get("mpi") or (of_network.get("mpi") if of_network else None)
    known = ("compiler", "specs", "network", "unify", "variants", "views", "packages")
    lines = [
        *_config(source, name, starter, all_comments["config"]),
        *_compilers(source, environment, all_comments["compilers"]),
        *_mpi(network, comments.of(mpi)),
        *([] if unify is True else ["unify: when_possible"]),
        *(left_out("unify: false", "when_possible is the closest setting") if unify is False else []),
        *rest_of(environment, known, f"under the environment {name}"),
        *_variants(lines_of(comments, node.get("variants"))),
        *(left_out(field_text("packages", named), PACKAGES_REASON) if (named := environment.get("packages")) else []),
        *grouped_lines(specs, is_one=unify is True),
        *_pins(source, all_comments),
        *views_of(views, default, comments, node.get("views")),
        *_copied_files(source),
    ]
    return [*lines, *_other_comments(source, name, all_comments)]


def _other_comments(source: _Source, name: str, comments: Mapping[str, Comments]) -> Iterator[str]:
    tree = source.read["environments"].tree
    starts = {each: comments["environments"].start(node.key.line) for each, node in tree.value.items()}
    own = starts.pop(name)
    ends = [start for start in starts.values() if start > own]
    before = range(1, min([own, *starts.values()]))
    ranges = {"environments": [before, range(own, min(ends, default=_ALL.stop))]}
    found = [
        (f"{file}.yaml:{number}", text)
        for file, known in comments.items()
        for number, text in known.rest(ranges.get(file, [_ALL]))
    ]
    if found:
        yield from comment("Other comments of the Stackinator recipe:")
    for place, text in found:
        yield from comment(f"{place}: {text}")


def _of_version_2(old: Data) -> dict[str, Any]:  # source: Stackinator 6, docs/porting.md
    new = {name: value for name, value in old.items() if name != "mpi"}
    mpi = dict(old.get("mpi") or {})
    spec, gpu = mpi.pop("spec", None), mpi.pop("gpu", None)
    network = {**mpi, "mpi": modern(f"{spec} +{gpu}" if gpu else spec) if spec else None}
    return {**new, "network": network, "compiler": [parse_spec(entry["spec"]).package for entry in old["compiler"]]}


@functools.cache
def _defaults() -> Any:
    return read(Path(__file__).with_name("stackinator.yaml"), "stackinator.yaml").plain()


def _config(source: _Source, name: str, starter: tuple[GitPin, GitPin], comments: Comments) -> Iterator[str]:
    config, spack = source.config, source.read["config"].tree.get("spack")
    yield from comment(
        f"Converted from a Stackinator recipe, version {source.version}, for the image {config['name']}. "
        f"Comments that start with `{LEFT_OUT}` contain the settings that this file cannot express."
    )
    known = ("name", "store", "spack", "description", "version", "modules", "default-view")
    yield from rest_of(config, known, "in config.yaml")
    yield f"description: {scalar(str(config.get('description') or name))}"
    yield from comment("Stackinator gets the system at build time. With uenvtool, use `build --system`.")
    yield from ("home: local", "uarchs: [any]")
    if config.get("store", _defaults()["mount"]) != _defaults()["mount"]:
        yield f"mount: {scalar(config['store'])}"
    pin, packages = _pin(config["spack"]), config["spack"].get("packages")
    if packages is None:
        why = (
            "uenvtool needs a newer Spack, whose packages are in a separate repository, "
            "so the resolved versions can differ"
        )
        yield from left_out(f"Spack {pin.revision} of {pin.url}", why)
        pin, repos = starter[0], {"builtin": starter[1]}
    else:
        named = {"builtin": packages} if isinstance(packages.get("repo"), str) else packages
        repos = {repo: _pin(pinned, repo) for repo, pinned in named.items()}
    reasons = (comments.of(spack.get("packages")), comments.of(spack)) if spack and packages is not None else ("", "")
    yield from (*with_comment("spack:", reasons[1]), *lines_of_pin(pin))
    yield from (*with_comment("repos:", reasons[0]), *lines_of_repos(repos))


def _pin(data: Data, name: str = "") -> GitPin:
    revision, path = str(data.get("commit") or ""), data.get("path", "")  # `commit` can also be a tag or branch
    form = "tag" if _TAG.fullmatch(revision) else "commit" if re.fullmatch("[0-9a-f]{40}", revision) else "branch"
    paths = (path,) if path and path != f"repos/spack_repo/{name}" else ()
    return GitPin(url=data["repo"], paths=paths, **({form: revision} if revision else {}))


def lines_of_pin(pin: GitPin) -> list[str]:
    """Return the lines of a recipe below the name of a git repository."""
    named = {"url": storable(pin.url), "tag": pin.tag, "commit": pin.commit, "branch": pin.branch}
    lines = [f"{name}: {scalar(value)}" for name, value in named.items() if value]
    return indented([*lines, *([f"paths: {flow(pin.paths)}"] if pin.paths else [])], 2)


def lines_of_repos(repos: Mapping[str, GitPin]) -> list[str]:
    """Return the lines of a recipe below `repos:`."""
    return [line for name, pin in repos.items() for line in (f"  {scalar(name)}:", *indented(lines_of_pin(pin), 2))]


def _compilers(source: _Source, environment: Data, comments: Comments) -> Iterator[str]:
    buildable: dict[str, tuple[str, str]] = {}
    for name, pinned in _versions(source):
        if buildable.setdefault(name, pinned) != pinned:
            why = f"a recipe has only one version of each compiler, and {buildable[name][0]} is the first"
            yield from left_out(f"{name}@{pinned[0]}", why)
    main = environment["compiler"][0]  # builds all specs that name no compiler
    if "bootstrap" in source.compilers:
        why = "the system's gcc builds the first compiler"
        yield from left_out(field_text("bootstrap", source.compilers["bootstrap"]), why)
    others = {name: value for name, value in source.compilers.items() if value and name not in ("bootstrap", "llvm")}
    yield from rest_of(others, buildable, "in compilers.yaml, for a compiler that cannot be built first")
    if main not in buildable:
        why = "it cannot be built first, so gcc builds all specs that name no compiler"
        yield from left_out(field_text("compiler", main), why)
        main = "gcc"
    lines: list[str] = []
    for name, (version, variants) in buildable.items():
        newest = str(_defaults()["newest"].get(version, "")) if name == "gcc" else ""
        exact = newest or (f"{version}.0" if name == "gcc" and version.count(".") == 1 else version)
        changed = f"{version} in the Stackinator recipe; this is the newest such version in Spack's packages"
        reasons = [comments.of(source.read["compilers"].tree.get(name)), changed if newest else ""]
        why = "; ".join(filter(None, reasons))
        if version == "system":
            yield from comment("Stackinator uses the system's gcc, and so does a recipe without `compiler`.")
            yield from comment(why)
        elif name == main:
            yield from with_comment(f"compiler: {scalar(f'{name}@{exact} {variants}')}", why)
        else:
            lines += with_comment(f"  {name}: {{version: {scalar(exact)}, variants: {scalar(variants)}}}", why)
    yield from ("compilers:", *lines) if lines else ()


def _versions(source: _Source) -> Iterator[tuple[str, tuple[str, str]]]:
    variants = _defaults()["variants"]
    for name, data in ((name, data) for name, data in source.compilers.items() if data):
        old = [parse_spec(spec) for spec in data.get("specs", ())]
        pinned = [(spec.package, str(spec.versions or "")) for spec in old] or [(name, str(data.get("version", "")))]
        for compiler, version in pinned:
            if compiler in variants and version:
                usual = f"{_defaults()['gcc'][str(source.version)]} " if compiler == "gcc" else ""
                yield compiler, (version, data.get("spec") or usual + variants[compiler])


def _mpi(network: Data, reason: str) -> Iterator[str]:
    yield from rest_of(network, ("mpi", "specs") if network.get("mpi") else ("mpi",), "under `network`")
    if text := network.get("mpi"):
        spec = parse_spec(text)
        variants = " ".join(filter(None, [*spec.words.values(), spec.dependencies]))
        fields = {"version": str(spec.versions or ""), "variants": variants}
        yield from ("mpi:", *with_comment(f"  {spec.package}: {_mapping(fields)}", reason))


def _mapping(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {scalar(value)}" for name, value in fields.items() if value) + "}"


def _variants(lines: Sequence[SpecLine]) -> Iterator[str]:
    if lines:
        values = [text for line in lines for text in indented(line.lines(), 4)]
        yield from ("variants:", "  all:", "    values:", *values, "global_variants: [all]")


def _pins(source: _Source, all_comments: Mapping[str, Comments]) -> Iterator[str]:
    if PACKAGES not in source.read:
        return
    pins: list[str] = []
    comments: list[str] = []
    tree = source.read[PACKAGES].tree.value[PACKAGES]
    for name, data in source.read[PACKAGES].data[PACKAGES].items():
        texts = [data["require"]] if isinstance(data.get("require"), str) else data.get("require", [])
        pin = None if name == "all" else _required(name, texts)
        reason = all_comments[PACKAGES].of(tree.get(name)) if pin else ""
        pins += with_comment(f"  {scalar(name)}: {_mapping(pin)}", reason) if pin else []
        comments += rest_of(
            data, ("require",) if pin else (), f"under {name} in packages.yaml; the system's file can have it"
        )
    yield from comments
    yield from ("require:", *pins) if pins else ()


def _required(package: str, texts: Iterable[object]) -> dict[str, str] | None:
    pin = {"version": "", "variants": "", "provider": ""}
    for text in texts:
        if not isinstance(text, str):
            return None
        spec = parse_spec(text)
        if spec.package not in ("", package):
            pin["provider"] = text
            continue
        pin["version"] = str(spec.versions or pin["version"])
        pin["variants"] = " ".join(filter(None, [pin["variants"], *spec.words.values(), spec.dependencies]))
    return pin if any(pin.values()) else None


def _files(directory: Path, config: Data) -> Iterator[tuple[str, Path]]:
    for name in ("modules.yaml", "post-install"):
        if (directory / name).is_file() and (name != "modules.yaml" or config.get("modules", True)):
            yield name, directory / name
    packages = directory / "repo" / "packages"
    for path in sorted(packages.rglob("*")) if config.get("version", 1) > 1 else ():
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            yield f"packages/{path.relative_to(packages).as_posix()}", path


def _other_files(directory: Path) -> dict[str, Path]:
    read = {*(f"{name}.yaml" for name in (*REQUIRED, PACKAGES)), "modules.yaml", "post-install"}
    files = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*")) if path.is_file()}
    return {name: path for name, path in files.items() if name not in read and name.split("/")[0] != ".git"}


def _can_be_copied(name: str, path: Path) -> bool:
    if not _FILE.fullmatch(name) or name.startswith("repo/") or path.is_symlink() or path.stat().st_size > LARGEST:
        return False
    return b"\0" not in (data := path.read_bytes()) and data == data.decode(errors="ignore").encode()


def _copied_files(source: _Source) -> Iterator[str]:
    if "modules.yaml" in source.files:
        yield "modules: modules.yaml"
    yield from ("deployment:", f"  name: {scalar(str(source.config['name']))}")
    if REFRAME in source.files:
        yield f"  reframe: {REFRAME}"
    if "post-install" in source.files:
        why = "for `build --format stackinator`; `image build --post-install FILE` needs a file without `{{ }}`"
        yield from with_comment("  post_install: post-install", why)
    others = _other_files(source.directory)
    if copied := [name for name in others if name in source.files and name != REFRAME]:
        why = "for `build --format stackinator`; `image build` only copies the files in extra/"
        if "pre-install" in copied:
            why += ". uenvtool does not run pre-install, so put the files that it downloads into a source mirror"
        yield from with_comment(f"  files: {flow(copied)}", why)
    names = sorted(  # a Spack package counts once
        {"/".join(name.split("/")[:3]) for name, path in others.items() if path not in source.files.values()}
    )
    old = [name for name in names if name.startswith("repo/")]
    for matching, why in (
        (old, "packages for Spack before 1.0 have another form; port them to packages/"),
        ([name for name in names if name not in old], "only text files of up to 10 MB with plain names are copied"),
    ):
        yield from left_out(", ".join(matching), why) if matching else ()
