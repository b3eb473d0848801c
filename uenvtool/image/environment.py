"""Says what of a store is in the image of environments, and what the image says of itself: its views, how to use
it as an upstream, its recipe."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files, quoting
from uenvtool.core.errors import BadInput, Position
from uenvtool.core.words import grouped
from uenvtool.env.environment import REPOSITORY
from uenvtool.env.folder import EXTRA as FOLDER_OF_EXTRA
from uenvtool.env.install import ENVIRONMENT, LOCAL, MODULE_FILES, POST_INSTALL, WITH_MOUNT, has_modules
from uenvtool.env.installable import Installable, repos_of, texts_of
from uenvtool.env.manifest import MANIFEST, REFRAME
from uenvtool.env.program import SPACK_URL
from uenvtool.image import bytecode
from uenvtool.image.metadata import ENV, PACKED, RECIPE, ListUpdate, Uenv, UenvView, env_json, packed_json, uenv_name
from uenvtool.image.pseudo import is_quotable
from uenvtool.image.tree import EPOCH, Bundle, Entry, Tree, parents, walk
from uenvtool.knowledge.lock import DATABASE, LARGEST_DATABASE, LOCK, read_lock
from uenvtool.knowledge.recipe import MODULES_VIEW, SPACK_VIEW

SBANG = "bin/sbang"
"""What Spack starts scripts with whose first line would be too long for the kernel (Spack 1.1, hooks/sbang.py)."""
PACKAGE_RECORDS = frozenset({"spec.json", "repos"})
"""What Spack keeps in a package's folder `.spack` that a later Spack reads; the rest is of one build: its times, its
log, its variables, who owned the files."""
_BYTECODE = re.compile(rb"(?P<folder>(?:.*/)?)__pycache__/(?P<stem>[^/]+)\.[^./]+\.pyc", re.DOTALL)
INSPECTED: Mapping[str, tuple[str, ...]] = {
    "bin": ("PATH",),
    "man": ("MANPATH",),
    "share/man": ("MANPATH",),
    "share/aclocal": ("ACLOCAL_PATH",),
    "lib/pkgconfig": ("PKG_CONFIG_PATH",),
    "lib64/pkgconfig": ("PKG_CONFIG_PATH",),
    "share/pkgconfig": ("PKG_CONFIG_PATH",),
    ".": ("CMAKE_PREFIX_PATH",),
}
"""Folders of a view and the variables that get them: Spack v1.1.0, etc/spack/defaults/base/modules.yaml."""


def image_tree(environments: Sequence[Installable], store: Path, scratch: Path) -> Tree:
    """Return what the image of installed environments holds, the same for any store that has the packages.

    Of the store: the packages of the locks alone, and the views. Bytecode is made again, since the files of an image
    have another time than those of the store, and is never compared with its source. scratch:
    gets the bytecode. Raises BadInput if the store has no packages, ToolFailed if the
    environment's Python does not run.
    """
    first = environments[0]
    installs = _cut_database(environments, store)
    below = f"{first.mount}/"
    prefixes = {str(row["path"]).removeprefix(below) for row in installs["installs"].values() if row["path"]}
    views = {view: _view_folder(one, store, view) for one in environments for view in one.views}
    local = {LOCAL} if POST_INSTALL in first.texts else set()
    local |= {MODULE_FILES} if has_modules(environments) else set()
    left_out = set(_others(store, {*prefixes, *views.values(), *(f"env/{name}" for name in views), SBANG, *local}))
    left_out |= {os.fsencode(name) for prefix in prefixes for name in _records_of_a_build(store, prefix)}
    entries = walk(store, left_out=left_out)
    bundles = _bytecode(environments, store, installs["installs"], entries, scratch)
    made = {name for bundle in bundles for name in bundle.contents}
    stale = {  # not made again, such as that of `python -O`
        name
        for name, entry in entries.items()
        if entry.kind == "f" and name.endswith(b".pyc") and b"__pycache__/" in name and name not in made
    }
    stale |= _links_to(entries, {*left_out, *stale}, os.fsencode(below))
    texts = _files(environments, store, views)
    texts |= {
        f"{RECIPE}/{name}": path.read_text(encoding="utf-8") for name, path in _compiler_locks(environments, store)
    }
    texts[DATABASE] = json.dumps({"database": installs}, sort_keys=True)
    return Tree(
        folder=store,
        known={name: entry for name, entry in entries.items() if name not in stale},
        added={file.encode(): text.encode() for file, text in texts.items()},
        bundles=bundles,
        left_out={*left_out, *stale},
    )


def _compiler_locks(environments: Sequence[Installable], store: Path) -> Iterator[tuple[str, Path]]:
    """Yield the locks of the compilers that were built first, which are resolved where they are installed."""
    for name in (os.path.join(one.place, folder, LOCK) for one in environments for folder in one.compilers):
        if (store / ENVIRONMENT / name).is_file():
            yield name, store / ENVIRONMENT / name


def _cut_database(environments: Sequence[Installable], store: Path) -> dict[str, Any]:
    """Return Spack's database of a store with the packages of the locks alone, and nothing of when they came."""
    try:
        database = json.loads(files.read_bytes(store / DATABASE, LARGEST_DATABASE))["database"]
        compilers = [read_lock(path) for _, path in _compiler_locks(environments, store)]
        locks = [*(one.lock for one in environments), *compilers]
        wanted = {package.hash for lock in locks for package in lock.packages}
        rows = {key: row for key, row in database["installs"].items() if key in wanted}
        needs = [{edge["hash"] for edge in row["spec"].get("dependencies", ())} for row in rows.values()]
        roots = {root["hash"] for one in environments for root in json.loads(one.texts[LOCK])["roots"]}
        installs = {
            key: {
                **{field: value for field, value in row.items() if field != "origin"},
                "explicit": key in roots,
                "installation_time": float(EPOCH),
                "ref_count": sum(key in needed for needed in needs),
            }
            for key, row in rows.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{store} is no store of Spack: {error}", hint="install into another --store") from error
    return {**database, "installs": installs}


def _others(store: Path, kept: Collection[str]) -> Iterator[bytes]:
    """Yield the outermost names in a store that are neither kept nor lead to what is kept."""
    above = {os.fspath(parent) for name in kept for parent in Path(name).parents}
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        for child in os.scandir(store / parent):
            name = f"{parent}/{child.name}" if parent else child.name
            if name in kept:
                continue
            if name in above and child.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                yield os.fsencode(name)


def _records_of_a_build(store: Path, prefix: str) -> Iterator[str]:
    folder = store / prefix / ".spack"
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name not in PACKAGE_RECORDS:
            yield f"{prefix}/.spack/{name}"


def _python(environment: Installable, installs: Mapping[str, Any]) -> str:
    """Return the Python of an environment, where its packages see it; "" if it has none."""
    for package in environment.lock.packages:
        if package.name == "python":
            prefix = package.external or (installs.get(package.hash) or {}).get("path")
            version = ".".join(package.version.split(".")[:2])
            return f"{prefix}/bin/python{version}"
    return ""


def _bytecode(
    environments: Sequence[Installable],
    store: Path,
    installs: Mapping[str, Any],
    entries: Mapping[bytes, Entry],
    scratch: Path,
) -> list[Bundle]:
    """Make the bytecode again that lies in a store, by the Python of its environment, which sees the mount point."""
    owners = _owners(environments, store, installs)
    modules: dict[str, dict[bytes, int]] = {}
    for name, entry in entries.items():
        found = _BYTECODE.fullmatch(name) if entry.kind == "f" and name.endswith(b".pyc") else None
        source = found["folder"] + found["stem"] + b".py" if found else b""
        if source in entries and entries[source].kind == "f" and is_quotable(source):
            owner = next((owners[part] for part in parents(source) if part in owners), environments[0])
            modules.setdefault(_python(owner, installs), {})[source] = entries[source].size
    bundles = []
    for python, own in sorted(modules.items()):
        if python:
            folder = scratch / files.digest(python)
            folder.mkdir(parents=True, exist_ok=True)
            seeing: list[str | Path] = [sys.executable, WITH_MOUNT, "--writable", scratch, store, environments[0].mount]
            bundles += bytecode.gather([*seeing, python], store, own, folder)
    return bundles


def _owners(environments: Sequence[Installable], store: Path, installs: Mapping[str, Any]) -> dict[bytes, Installable]:
    """Return the folders of packages and views with the environment that they are of; the first one that has them."""
    found: dict[bytes, Installable] = {}
    for one in reversed(environments):
        paths = [str((installs.get(package.hash) or {}).get("path") or "") for package in one.lock.packages]
        names = [path.removeprefix(f"{one.mount}/") for path in paths]
        found |= {os.fsencode(name): one for name in (*names, *(_view_folder(one, store, view) for view in one.views))}
    return found


def _links_to(entries: Mapping[bytes, Entry], left_out: Collection[bytes], below: bytes) -> set[bytes]:
    """Return the links to what is left out: a view has one to each of Spack's records of a package."""
    targets = {
        name: os.path.normpath(os.path.join(os.path.dirname(name), entry.target)).removeprefix(below)
        for name, entry in entries.items()
        if entry.kind == "l"
    }
    inside = {name: target for name, target in targets.items() if not target.startswith(b"/")}
    return {name for name, target in inside.items() if any(part in left_out for part in (target, *parents(target)))}


def _files(environments: Sequence[Installable], store: Path, folders: Mapping[str, str]) -> dict[str, str]:
    first = environments[0]
    has_own = POST_INSTALL in first.texts and (store / LOCAL / "bin").is_dir()
    own = [f"{first.mount}/{LOCAL}/bin"] if has_own else []
    views = {view: _view(one, view, store / folders[view], own) for one in environments for view in one.views}
    uenv = _uenv(environments, views, uenv_name(first.name, "environment"))
    scope = {
        "upstreams": {uenv.name: {"install_tree": first.mount}},
        "packages": _externals(environments),
        **_repositories(environments),
    }
    return {
        ENV: env_json(uenv),
        PACKED: packed_json(first.mount, bytecode="unchecked-hash"),
        **{f"{folder}/activate.sh": _activation(views[view]) for view, folder in folders.items()},
        **{f"config/{section}.yaml": json.dumps({section: data}, indent=1) + "\n" for section, data in scope.items()},
        **{f"{RECIPE}/{file}": text for file, text in texts_of(environments).items()},
        **_metadata(environments),
    }


def _metadata(environments: Sequence[Installable]) -> dict[str, str]:
    """Return the files that environments have for `meta/extra`; what a site's tests find in the views is one file."""
    extra = f"{FOLDER_OF_EXTRA}/"
    found: dict[str, str] = {}
    for name, text in (pair for one in environments for pair in one.texts.items() if pair[0].startswith(extra)):
        is_one = name == f"{extra}{REFRAME}"
        found[f"meta/{name}"] = found.get(f"meta/{name}", "") + text if is_one else found.get(f"meta/{name}", text)
    return found


def _repositories(environments: Sequence[Installable]) -> dict[str, Any]:
    """Return the package repositories besides Spack's own: a Spack that uses the image has to know their packages."""
    repos = {name: place for name, place in repos_of(environments).items() if name != "builtin"}
    mount = environments[0].mount
    own = {name: f"{mount}/{RECIPE}/{REPOSITORY}" for name, place in repos.items() if place == REPOSITORY}
    return {"repos": {**repos, **own}} if repos else {}


def _view_folder(environment: Installable, store: Path, view: str) -> str:
    """Return the folder of a view, relative to the store: Spack makes the view's name a link to the newest one."""
    name = f"env/{view}"
    if not (store / name).is_symlink():
        return name
    return os.readlink(store / name).removeprefix(f"{environment.mount}/")


def _uenv(environments: Sequence[Installable], views: Mapping[str, UenvView], name: str) -> Uenv:
    first = environments[0]
    spack = UenvView(
        description="configuration for a Spack of one's own that uses this image as an upstream",
        root=first.mount,
        activate=views[first.view].activate,
        scalars={"UENV_SPACK_CONFIG_PATH": f"{first.mount}/config", **_spack_variables(first)},
    )
    root = f"{first.mount}/{MODULE_FILES}"
    of_modules = UenvView(
        description="the module files of the packages",
        root=root,
        activate=views[first.view].activate,
        lists={"MODULEPATH": [ListUpdate(op="prepend", paths=[root])]},
    )
    with_modules = has_modules(environments)
    return Uenv(
        name=name,
        description=first.description or f"{len(first.lock.roots)} packages, made by uenvtool",
        mount=first.mount,
        views={**views, SPACK_VIEW: spack, **({MODULES_VIEW: of_modules} if with_modules else {})},
        default_view=first.view,
        modules=root if with_modules else None,
    )


def _spack_variables(environment: Installable) -> dict[str, str]:
    """Return where the Spack and its packages are that the environment was resolved with, as CSCS names them.

    Source: Stackinator, etc/envvars.py; uenv-spack fetches what COMMIT names, and refuses an image without it. Where no
    commit is on record, that is the tag, which git fetches too.
    """
    builtin = (environment.manifest.get("repos") or {}).get("builtin")
    packages = builtin if isinstance(builtin, dict) else {}
    release = f"v{environment.lock.spack}"
    tag = packages.get("tag")
    beside = re.search(rf"tag: {re.escape(str(tag))}  # commit ([0-9a-f]{{40}})", environment.texts[MANIFEST])
    named = {
        "UENV_SPACK_VERSION": environment.lock.spack,
        "UENV_SPACK_URL": SPACK_URL,
        "UENV_SPACK_REF": release,
        "UENV_SPACK_COMMIT": json.loads(environment.texts[LOCK]).get("spack", {}).get("commit") or release,
        "UENV_SPACK_PACKAGES_URL": packages.get("git"),
        "UENV_SPACK_PACKAGES_REF": tag or packages.get("commit"),
        "UENV_SPACK_PACKAGES_COMMIT": packages.get("commit") or (beside[1] if beside else tag),
    }
    return {name: str(value) for name, value in named.items() if value}


def _view(environment: Installable, name: str, folder: Path, own: Sequence[str]) -> UenvView:
    """Return a view with the paths that it has; only its own are named, before what the user has.

    Behind them come the programs of a script of the user's, which lie in `own`, and those of compilers.
    """
    root = environment.root_of(name)
    found = _inspected(environment.manifest, folder)
    paths = {
        variable: [root if part == "." else f"{root}/{part}" for part in parts] for variable, parts in found.items()
    }
    if own:
        paths.setdefault("PATH", []).extend(own)
    for variable, folders in (environment.manifest.get("env_vars") or {}).get("prepend_path", {}).items():
        paths.setdefault(variable, []).extend(str(folders).split(":"))
    lists = {variable: [ListUpdate(op="prepend", paths=named)] for variable, named in paths.items()}
    scalars = _variables(environment, name)
    for variable in (*lists, *scalars):
        if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):  # it stands in a script as it is
            place = Position(str(environment.folder / MANIFEST))
            raise BadInput(f"{variable!r} is not the name of a variable", place, hint="letters, digits and _")
    return UenvView(
        description=f"{len(environment.lock.roots)} packages with what they need",
        root=root,
        activate=f"{root}/activate.sh",
        lists=lists,
        scalars=scalars,
    )


def _inspected(manifest: Mapping[str, Any], folder: Path) -> dict[str, list[str]]:
    own = (manifest.get("modules") or {}).get("prefix_inspections") or {}
    named = {**INSPECTED, **{part.removeprefix("./") or ".": tuple(variables) for part, variables in own.items()}}
    present = {part: variables for part, variables in named.items() if (folder / part).is_dir()}
    return grouped((variable, part) for part, variables in present.items() for variable in variables)


def _variables(environment: Installable, view: str) -> dict[str, str | None]:
    """Return the variables that the environment sets, and None for those that it unsets; in a further view, with paths
    of its own."""
    section = environment.manifest.get("env_vars") or {}
    root, usual = environment.root_of(view), environment.root_of(environment.view)
    elsewhere = re.compile(rf"(\$env/\.spack-env/{re.escape(environment.view)}|{re.escape(usual)})(?![\w.-])")
    values = {name: elsewhere.sub(lambda _: root, str(value)) for name, value in section.get("set", {}).items()}
    return {**values, **dict.fromkeys(section.get("unset", ()))}


def _activation(view: UenvView) -> str:
    lines = ["# Generated by uenvtool: what `uenv start IMAGE --view=VIEW` sets, for a shell that sources it."]
    for name, updates in view.lists.items():
        for path in reversed(updates[0].paths):  # the first one comes first
            lines.append(f'export {name}={quoting.sh(path)}"${{{name}:+:${name}}}"')
    for name, value in view.scalars.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={quoting.sh(value)}")
    return "\n".join(lines) + "\n"


def _externals(environments: Sequence[Installable]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, settings in (pair for one in environments for pair in (one.manifest.get("packages") or {}).items()):
        if isinstance(settings, dict) and settings.get("externals"):
            kept = found.setdefault(str(name).rstrip(":"), {"externals": []})
            kept["externals"] += [one for one in settings["externals"] if one not in kept["externals"]]
            kept |= {"buildable": settings["buildable"]} if "buildable" in settings else {}
    return found or {"all": {}}
