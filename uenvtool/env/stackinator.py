"""Renders an environment as a recipe of version 2 or 3 for Stackinator, the image builder of CSCS.

Stackinator builds the compilers first, then MPI and its network packages, and then all other packages. Therefore
compilers and MPI have their own fields and are not in `specs`. Stackinator's cluster configuration provides the
externals, so this module omits the externals of the system file. Source: Stackinator 6 and 7, docs/recipes.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uenvtool.core.errors import BadInput
from uenvtool.core.yamltext import comment, flow, indented, quoted, scalar, with_comment
from uenvtool.env.compilers import LANGUAGES
from uenvtool.env.directory import EXTRA
from uenvtool.env.environment import Environment, RootGroup
from uenvtool.env.installable import MOUNT
from uenvtool.env.manifest import REFRAME, commented_header, linked, render_reframe
from uenvtool.env.request import STACKINATOR
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.spec import parse_spec

NETWORK_PACKAGES = ("libfabric", "xpmem", "ucx")
"""Packages that Stackinator resolves together with MPI."""
DEPLOYMENT = "deployment.yaml"
"""The lines to add to the `config.yaml` of the site's recipes (eth-cscs/alps-uenv). Stackinator ignores this file."""
LEFT_TO_STACKINATOR = ("cray-gtl", "cray-pmi", "cray-pals", "rdma-core", "glibc")
"""Packages that the cluster configuration provides, or that are dependencies of MPI or the compiler."""

MODULES = ["modules:", "  default:", "    roots: {tcl: modules}"]
"""The modules.yaml for Stackinator 6.0.0, which otherwise reads a file that Spack 1.1 moved.

Later versions of Stackinator generate tcl modules without this file.
"""
PRE_INSTALL = [
    "# Without this setting, Spack rejects a deprecated compiler such as gcc 13.3.0.",
    "spack config --scope=system add config:deprecated:true",
]
"""The hook that Stackinator runs before it builds the compilers, since compilers.yaml has no field `deprecated`."""


def render_recipe(environment: Environment, version: int) -> dict[str, str]:
    """Return the text of each file of a Stackinator recipe, by relative path. version: 2 or 3.

    Raises BadInput if the recipe names no compiler, since Stackinator requires one.
    """
    recipe = environment.recipe
    if recipe.compiler is None:
        raise BadInput(
            f"{recipe.name} does not name a compiler, which Stackinator requires",
            recipe.tree.position,
            "add a compiler to a recipe that extends it, for example `compiler: gcc@13.3.0`",
        )
    files = {f"repo/packages/{addition.target}": addition.text() for addition in recipe.additions}
    formats = {number: name for name, number in STACKINATOR.items()}
    header = commented_header(environment, "--format", formats[version])
    for name, lines in (
        ("config.yaml", _config(environment, version)),
        ("compilers.yaml", _compilers(environment, version)),
        ("packages.yaml", _packages(environment)),
        ("modules.yaml", recipe.modules.splitlines() or (MODULES if version == 2 else [])),
        ("environments.yaml", _environments(environment)),
        (f"{EXTRA}/{REFRAME}", render_reframe(environment)),
        (DEPLOYMENT, _deployment(environment)),
    ):
        if lines:
            files[name] = "\n".join([*header, *lines]) + "\n"
    own = {addition.target: addition.text() for addition in recipe.deployment.files}
    if environment.cves:
        first = own.get("pre-install", "\n".join(["#!/bin/bash", *header])).rstrip("\n")
        files["pre-install"] = "\n".join([first, *PRE_INSTALL]) + "\n"
    if recipe.deployment.post_install:
        files["post-install"] = recipe.deployment.post_install
    return {**own, **files}


def _config(environment: Environment, version: int) -> list[str]:
    recipe = environment.recipe
    spack, builtin = storable((recipe.spack, recipe.repos["builtin"]))
    commit, packages_commit = (pin.commit or pin.revision for pin in (spack, builtin))  # a tag may move
    # Stackinator 6.0 does not know `default-view`
    view = [f"default-view: {scalar(recipe.view.name)}"] if version > 2 and recipe.view.load == "default" else []
    return [
        f"name: {scalar(recipe.deployment.name or recipe.deployment.label.partition('/')[0] or recipe.name)}",
        f"description: {scalar(recipe.description)}",
        f"version: {version}",
        f"store: {scalar(environment.system.mount or MOUNT)}",
        *view,
        "spack:",
        f"  repo: {scalar(spack.url)}",
        f"  commit: {scalar(commit)}",
        "  packages:",
        f"    repo: {scalar(builtin.url)}",
        f"    commit: {scalar(packages_commit)}",
    ]


def _deployment(environment: Environment) -> list[str]:
    deployment, uarch = environment.recipe.deployment, environment.node.uarch
    name, _, version = deployment.label.partition("/")
    clusters = [cluster for cluster, uarchs in deployment.clusters.items() if uarch in uarchs]
    if not (version and clusters):
        return []
    return [
        "# Add this to `uenvs:` in the config.yaml of the site's recipes, and copy this directory there to recipes/"
        f"{name}/{version}/{uarch}.",
        f"{scalar(name)}:",
        f"  {scalar(version)}:",
        f"    recipes: {{{uarch}: {scalar(f'{version}/{uarch}')}}}",
        "    deploy:",
        *[f"      {cluster}: [{uarch}]" for cluster in clusters],
    ]


def _compilers(environment: Environment, version: int) -> list[str]:
    lines = []
    for compiler in environment.compilers:
        spec = compiler.root.spec
        compiler_version = str(spec.versions).lstrip("=") if spec.versions else ""
        variants = " ".join(spec.words.values())
        lost = f"Stackinator 6 does not support the variants {variants}" if variants and version == 2 else ""
        lines += with_comment(f"{compiler.name}:", compiler.root.reason)
        lines += with_comment(f"  version: '{compiler_version}'", lost)
        lines += [f"  spec: {scalar(variants)}"] if variants and version > 2 else []
    return lines


def _environments(environment: Environment) -> list[str]:
    compilers = [compiler.name for compiler in environment.compilers]
    lines = [f"{scalar(environment.recipe.name)}:", f"  compiler: {flow(compilers)}"]
    network = [root for group in environment.groups for root in group.roots if root.package in NETWORK_PACKAGES]
    mpi = next((group.roots[0] for group in environment.groups if group.name == "mpi"), None)
    if mpi:
        is_nvidia = environment.node.gpu and environment.node.gpu.vendor == "nvidia"
        gpu = " +cuda" if is_nvidia and "cuda" not in mpi.text else ""
        lines += ["  network:", f"    mpi: {scalar(mpi.text.replace('@=', '@', 1) + gpu)}"]
        if network:
            lines.append("    specs:")
            lines += [f"    - {scalar(_with_pin(environment, root.package, root.text))}" for root in network]
    lines.append(f"  unify: {environment.recipe.unify.lower()}")
    if environment.cves:
        listed = ", ".join(cve.id for cve in environment.cves)
        lines += indented(with_comment("deprecated: true", f"pinned versions with known vulnerabilities: {listed}"), 2)
    lines.append("  specs:")
    for group in environment.groups:
        lines += indented(list(_group(environment, group, compilers)), 2)
    if environment.variants:
        lines.append("  variants:")
        lines += [f"  - {scalar(variant.text)}" for variant in environment.variants]
    return [*lines, *_views(environment)]


def _group(environment: Environment, group: RootGroup, compilers: Sequence[str]) -> Iterator[str]:
    elsewhere = {*compilers, *NETWORK_PACKAGES, *LEFT_TO_STACKINATOR}
    roots = [root for root in group.roots if root.package not in elsewhere and group.name != "mpi"]
    if roots:
        yield from comment(f"{group.name}: {group.reason}" if group.reason else group.name)
    for root in roots:
        yield from with_comment(f"- {scalar(_with_pin(environment, root.package, root.text))}", root.reason)


def _with_pin(environment: Environment, package: str, text: str) -> str:
    if parse_spec(text).versions is not None:
        return text.replace("@=", "@", 1)  # as in Stackinator's documentation
    settings = {known.name: known for known in environment.packages}.get(package)
    pins = [pin.text for pin in settings.require if pin.text.startswith("@")] if settings else []
    return text.replace(package, f"{package}{pins[0]}", 1) if pins else text


def _packages(environment: Environment) -> list[str]:
    compilers = (compiler.name for compiler in environment.compilers)
    left = {*compilers, *LEFT_TO_STACKINATOR, "mpi", *LANGUAGES}
    lines: list[str] = []
    for settings in environment.packages:
        if settings.name in left or settings.externals:
            continue
        if settings.require:
            lines += [f"  {settings.name}:", "    require:"]
            for pin in settings.require:
                lines += indented(with_comment(f"- {scalar(pin.text)}", pin.reason), 4)
        elif settings.preferred:
            lines.append(f"  {settings.name}: {{version: {flow(settings.preferred.versions)}}}")
    return ["packages:", *lines] if lines else []


def _views(environment: Environment) -> list[str]:
    view = environment.recipe.view
    lines = ["  views:"]
    for other in environment.recipe.views.values():
        lines += [f"    {other.name}:", *indented(linked(other), 6)]
    lines += [f"    {view.name}:", *indented(linked(view), 6), "      uenv:"]
    lines.append(f"        add_compilers: {'true' if view.add_compilers else 'false'}")
    if view.prefix_paths:
        lines.append("        prefix_paths:")
        lines += [f"          {name}: {flow(paths)}" for name, paths in view.prefix_paths.items()]
    if environment.variables or environment.prepended:
        lines.append("        env_vars:")
    if environment.prepended:
        lines.append("          prepend_path:")
        pairs = [(name, path) for name, paths in environment.prepended.items() for path in reversed(paths)]
        lines += [f"          - {name}: {quoted(path)}" for name, path in pairs]  # the last entry is prepended last
    if environment.variables:
        lines.append("          set:")
        for variable in environment.variables:
            value = "null" if variable.value is None else quoted(variable.value)
            lines += indented(with_comment(f"- {variable.name}: {value}", variable.reason), 10)
    return lines
