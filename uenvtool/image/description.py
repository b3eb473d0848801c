"""What the image of environments says of itself: its views, how to use it as an upstream, its recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput, Position
from uenvtool.core.words import counted, grouped
from uenvtool.env.environment import REPOSITORY
from uenvtool.env.folder import EXTRA, MANIFEST
from uenvtool.env.install import LOCAL, MODULE_FILES, POST_INSTALL, has_modules
from uenvtool.env.installable import Installable, repos_of, texts_of
from uenvtool.env.manifest import REFRAME
from uenvtool.env.program import SPACK_URL
from uenvtool.image.metadata import ENV, PACKED, RECIPE, ListUpdate, Uenv, UenvView, env_json, packed_json, uenv_name
from uenvtool.knowledge.lock import LOCK
from uenvtool.knowledge.recipe import MODULES_VIEW, SPACK_VIEW

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


def described(environments: Sequence[Installable], store: Path, folders: Mapping[str, str]) -> dict[str, str]:
    """Return the files that make an image of a store, by their name in it.

    folders: of the views, relative to the store. Raises BadInput for a variable of a view that is none.
    """
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
    texts = {name: text for one in reversed(environments) for name, text in one.texts.items()}  # the first has its way
    reframe = f"{EXTRA}/{REFRAME}"
    if reframe in texts:
        texts[reframe] = "".join(one.texts.get(reframe, "") for one in environments)
    return {f"meta/{name}": text for name, text in texts.items() if name.startswith(f"{EXTRA}/")}


def _repositories(environments: Sequence[Installable]) -> dict[str, Any]:
    """Return the package repositories besides Spack's own: a Spack that uses the image has to know their packages."""
    repos = {name: place for name, place in repos_of(environments).items() if name != "builtin"}
    mount = environments[0].mount
    own = {name: f"{mount}/{RECIPE}/{REPOSITORY}" for name, place in repos.items() if place == REPOSITORY}
    return {"repos": {**repos, **own}} if repos else {}


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
        description=first.description or f"{counted(len(first.lock.roots), 'package')}, made by uenvtool",
        mount=first.mount,
        views={**views, SPACK_VIEW: spack, **({MODULES_VIEW: of_modules} if with_modules else {})},
        default_view=first.view,
        modules=root if with_modules else None,
    )


def _spack_variables(environment: Installable) -> dict[str, str]:
    """Return where the Spack and its packages are that the environment was resolved with, as CSCS names them.

    Source: Stackinator, etc/envvars.py; uenv-spack fetches what COMMIT names, and refuses an image without it: the
    commit of the Spack that resolved, else that of the recipe, else the tag or branch, which git fetches too.
    """
    builtin = environment.manifest.get("repos", {}).get("builtin")
    packages = builtin if isinstance(builtin, dict) else {}
    release = f"v{environment.lock.spack}"
    ref = packages.get("tag") or packages.get("branch")
    of_header = re.search(rf"#   Spack {re.escape(release)}, commit ([0-9a-f]{{40}})\n", environment.texts[MANIFEST])
    commit = json.loads(environment.texts[LOCK]).get("spack", {}).get("commit") or (of_header and of_header[1])
    beside = re.search(rf"tag: {re.escape(str(ref))}  # commit ([0-9a-f]{{40}})", environment.texts[MANIFEST])
    named = {
        "UENV_SPACK_VERSION": environment.lock.spack,
        "UENV_SPACK_URL": SPACK_URL,
        "UENV_SPACK_REF": release,
        "UENV_SPACK_COMMIT": commit or release,
        "UENV_SPACK_PACKAGES_URL": packages.get("git"),
        "UENV_SPACK_PACKAGES_REF": ref or packages.get("commit"),
        "UENV_SPACK_PACKAGES_COMMIT": packages.get("commit") or (beside[1] if beside else ref),
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
    for variable, folders in environment.manifest.get("env_vars", {}).get("prepend_path", {}).items():
        paths.setdefault(variable, []).extend(str(folders).split(":"))
    lists = {variable: [ListUpdate(op="prepend", paths=named)] for variable, named in paths.items()}
    scalars = _variables(environment, name)
    for variable in (*lists, *scalars):
        if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):  # it stands in a script as it is
            place = Position(str(environment.folder / MANIFEST))
            raise BadInput(f"{variable!r} is not the name of a variable", place, hint="letters, digits and _")
    return UenvView(
        description=f"{counted(len(environment.lock.roots), 'package')} with what they need",
        root=root,
        activate=f"{root}/activate.sh",
        lists=lists,
        scalars=scalars,
    )


def _inspected(manifest: Mapping[str, Any], folder: Path) -> dict[str, list[str]]:
    own = manifest.get("modules", {}).get("prefix_inspections", {})
    named = {**INSPECTED, **{part.removeprefix("./") or ".": tuple(variables) for part, variables in own.items()}}
    present = {part: variables for part, variables in named.items() if (folder / part).is_dir()}
    return grouped((variable, part) for part, variables in present.items() for variable in variables)


def _variables(environment: Installable, view: str) -> dict[str, str | None]:
    """Return the variables that the environment sets, and None for those that it unsets; in a further view, with paths
    of its own."""
    section = environment.manifest.get("env_vars", {})
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
    for name, settings in (pair for one in environments for pair in one.manifest.get("packages", {}).items()):
        if isinstance(settings, dict) and settings.get("externals"):
            kept = found.setdefault(str(name).rstrip(":"), {"externals": []})
            kept["externals"] += [one for one in settings["externals"] if one not in kept["externals"]]
            kept |= {"buildable": settings["buildable"]} if "buildable" in settings else {}
    return found or {"all": {}}
