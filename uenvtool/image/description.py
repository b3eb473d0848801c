"""Renders the metadata files of an image: its views, its recipes, and the configuration for a Spack that uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput, Position
from uenvtool.core.words import counted, grouped
from uenvtool.env.directory import EXTRA, MANIFEST
from uenvtool.env.environment import REPOSITORY
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
"""The directories of a view, and the variables to which Spack prepends each one.

Source: Spack v1.1.0, etc/spack/defaults/base/modules.yaml."""


def described(environments: Sequence[Installable], store: Path, directories: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata files of an image, by their name in the image.

    directories: the directory of each view, relative to the store. Raises BadInput if a view sets a variable whose name
    is invalid.
    """
    first = environments[0]
    has_programs = POST_INSTALL in first.texts and (store / LOCAL / "bin").is_dir()
    user_bin = [f"{first.mount}/{LOCAL}/bin"] if has_programs else []
    views = {
        view: _view(environment, view, store / directories[view], user_bin)
        for environment in environments
        for view in environment.views
    }
    uenv = _uenv(environments, views, uenv_name(first.name, "environment"))
    scope = {
        "upstreams": {uenv.name: {"install_tree": first.mount}},
        "packages": _externals(environments),
        **_repositories(environments),
    }
    return {
        ENV: env_json(uenv),
        PACKED: packed_json(first.mount, bytecode="unchecked-hash"),
        **{f"{directory}/activate.sh": _activation(views[view]) for view, directory in directories.items()},
        **{f"config/{section}.yaml": json.dumps({section: data}, indent=1) + "\n" for section, data in scope.items()},
        **{f"{RECIPE}/{file}": text for file, text in texts_of(environments).items()},
        **_metadata(environments),
    }


def _metadata(environments: Sequence[Installable]) -> dict[str, str]:
    texts = {name: text for each in reversed(environments) for name, text in each.texts.items()}  # the first one wins
    reframe = f"{EXTRA}/{REFRAME}"
    if reframe in texts:
        texts[reframe] = "".join(dict.fromkeys(environment.texts.get(reframe, "") for environment in environments))
    return {f"meta/{name}": text for name, text in texts.items() if name.startswith(f"{EXTRA}/")}


def _repositories(environments: Sequence[Installable]) -> dict[str, Any]:
    repos = {name: repo for name, repo in repos_of(environments).items() if name != "builtin"}
    mount = environments[0].mount
    in_image = {name: f"{mount}/{RECIPE}/{REPOSITORY}" for name, repo in repos.items() if repo == REPOSITORY}
    return {"repos": {**repos, **in_image}} if repos else {}


def _uenv(environments: Sequence[Installable], views: Mapping[str, UenvView], name: str) -> Uenv:
    first = environments[0]
    spack = UenvView(
        description="configuration for your own Spack with this image as an upstream",
        root=first.mount,
        activate=views[first.view].activate,
        scalars={"UENV_SPACK_CONFIG_PATH": f"{first.mount}/config", **_spack_variables(first)},
    )
    root = f"{first.mount}/{MODULE_FILES}"
    modules = UenvView(
        description="the module files of the packages",
        root=root,
        activate=views[first.view].activate,
        lists={"MODULEPATH": [ListUpdate(op="prepend", paths=[root])]},
    )
    has_module_files = has_modules(environments)
    return Uenv(
        name=name,
        description=first.description or f"{counted(len(first.lock.roots), 'package')}, built by uenvtool",
        mount=first.mount,
        views={**views, SPACK_VIEW: spack, **({MODULES_VIEW: modules} if has_module_files else {})},
        default_view=first.default_view,
        modules=root if has_module_files else None,
    )


def _spack_variables(environment: Installable) -> dict[str, str]:
    """Return the variables that tell uenv-spack where to get Spack and its packages.

    Source: Stackinator, etc/envvars.py. uenv-spack rejects an image without a revision in COMMIT. COMMIT is the commit
    of the Spack that resolved the environment, or else the recipe's commit, or else a tag or branch.
    """
    builtin = environment.manifest.get("repos", {}).get("builtin")
    packages = builtin if isinstance(builtin, dict) else {}
    release = f"v{environment.lock.spack}"
    ref = packages.get("tag") or packages.get("branch")
    in_header = re.search(rf"#   Spack {re.escape(release)}, commit ([0-9a-f]{{40}})\n", environment.texts[MANIFEST])
    commit = json.loads(environment.texts[LOCK]).get("spack", {}).get("commit") or (in_header and in_header[1])
    after_tag = re.search(rf"tag: {re.escape(str(ref))}  # commit ([0-9a-f]{{40}})", environment.texts[MANIFEST])
    variables = {
        "UENV_SPACK_VERSION": environment.lock.spack,
        "UENV_SPACK_URL": SPACK_URL,
        "UENV_SPACK_REF": release,
        "UENV_SPACK_COMMIT": commit or release,
        "UENV_SPACK_PACKAGES_URL": packages.get("git"),
        "UENV_SPACK_PACKAGES_REF": ref or packages.get("commit"),
        "UENV_SPACK_PACKAGES_COMMIT": packages.get("commit") or (after_tag[1] if after_tag else ref),
    }
    return {name: str(value) for name, value in variables.items() if value}


def _view(environment: Installable, name: str, directory: Path, user_bin: Sequence[str]) -> UenvView:
    root = environment.root_of(name)
    inspected = _inspected(environment.manifest, directory)
    paths = {
        variable: [root if part == "." else f"{root}/{part}" for part in parts] for variable, parts in inspected.items()
    }
    if user_bin:  # from the user's script; like the directories of compilers, after the directories of the view
        paths.setdefault("PATH", []).extend(user_bin)
    for variable, directories in environment.manifest.get("env_vars", {}).get("prepend_path", {}).items():
        paths.setdefault(variable, []).extend(str(directories).split(":"))
    lists = {variable: [ListUpdate(op="prepend", paths=prepended)] for variable, prepended in paths.items()}
    scalars = _variables(environment, name)
    for variable in (*lists, *scalars):
        if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):  # activation scripts contain it unquoted
            position = Position(str(environment.folder / MANIFEST))
            hint = "use only letters, digits and _, and do not start with a digit"
            raise BadInput(f"{variable!r} is not a valid variable name", position, hint=hint)
    return UenvView(
        description=f"{counted(len(environment.lock.roots), 'package')} with their dependencies",
        root=root,
        activate=f"{root}/activate.sh",
        lists=lists,
        scalars=scalars,
    )


def _inspected(manifest: Mapping[str, Any], directory: Path) -> dict[str, list[str]]:
    configured = manifest.get("modules", {}).get("prefix_inspections", {})
    inspections = {
        **INSPECTED,
        **{part.removeprefix("./") or ".": tuple(variables) for part, variables in configured.items()},
    }
    present = {part: variables for part, variables in inspections.items() if (directory / part).is_dir()}
    return grouped((variable, part) for part, variables in present.items() for variable in variables)


def _variables(environment: Installable, view: str) -> dict[str, str | None]:
    """Return the variables that a view sets, with None for each variable that it unsets."""
    section = environment.manifest.get("env_vars", {})
    root, usual = environment.root_of(view), environment.root_of(environment.view)
    default_root = re.compile(rf"(\$env/\.spack-env/{re.escape(environment.view)}|{re.escape(usual)})(?![\w.-])")
    # the manifest contains paths in the default view
    values = {name: default_root.sub(lambda _: root, str(value)) for name, value in section.get("set", {}).items()}
    return {**values, **dict.fromkeys(section.get("unset", ()))}


def _activation(view: UenvView) -> str:
    lines = ["# Generated by uenvtool. Source this file to set the same variables as `uenv start IMAGE --view=VIEW`."]
    for name, updates in view.lists.items():
        for path in reversed(updates[0].paths):  # the path that is prepended last comes first
            lines.append(f'export {name}={quoting.sh(path)}"${{{name}:+:${name}}}"')
    for name, value in view.scalars.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={quoting.sh(value)}")
    return "\n".join(lines) + "\n"


def _externals(environments: Sequence[Installable]) -> dict[str, Any]:
    packages: dict[str, Any] = {}
    for name, settings in (pair for each in environments for pair in each.manifest.get("packages", {}).items()):
        if isinstance(settings, dict) and settings.get("externals"):
            merged = packages.setdefault(str(name).rstrip(":"), {"externals": []})
            merged["externals"] += [spec for spec in settings["externals"] if spec not in merged["externals"]]
            merged |= {"buildable": settings["buildable"]} if "buildable" in settings else {}
    return packages or {"all": {}}
