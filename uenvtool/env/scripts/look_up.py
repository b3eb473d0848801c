"""Run by `spack -e FOLDER python`: prints which packages, versions and variants no repository of it has, as JSON.

Arguments: what `platform.machine()` says on the nodes, since packages choose by it which versions they have, and a JSON
file with a list of specs. Each row of the answer: the index of the spec, what is missing (package, version or
variant), the package, its name or value, and what there is instead, the nearest first. Written for Spack v1.1.
"""

import difflib
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spack.config
import spack.repo
import spack.spec
import spack.version

sys.path.insert(0, str(Path(__file__).parent))

OF_EVERY_PACKAGE = {"arch", "commit", "dev_path", "namespace", "os", "patches", "platform", "target"}
"""What may stand where a variant does, whether the package names it or not."""


def nearest(wanted: Any, known: list[Any]) -> list[str]:
    """Return versions, those first that begin like the wanted one, and of these the newest."""
    target = str(wanted).lstrip("=").split(":")[0].replace("-", ".").split(".")

    def alike(version: Any) -> int:
        parts = str(version).replace("-", ".").split(".")
        return next((at for at, part in enumerate(parts) if at >= len(target) or part != target[at]), len(parts))

    numbered = [version for version in known if not version.isdevelop()]
    return [str(version) for version in sorted(sorted(numbered, reverse=True), key=alike, reverse=True)]


def missing(node: Any) -> Iterator[list[Any]]:
    """Yield what of one node of a spec there is not: kind, package, what is asked for, what there is."""
    repositories = spack.repo.PATH
    if not repositories.exists(node.name):
        if not repositories.is_virtual(node.name):
            yield ["package", node.name, "", difflib.get_close_matches(node.name, repositories.all_package_names())]
        return
    package = repositories.get_pkg_class(node.name)
    deprecated = spack.config.get("config:deprecated", False)
    known = [version for version, about in package.versions.items() if deprecated or not about.get("deprecated")]
    of_git = any(isinstance(version, spack.version.GitVersion) for version in node.versions)
    if known and not of_git and not any(version.satisfies(node.versions) for version in known):
        yield ["version", node.name, str(node.versions), nearest(node.versions, known)]
    names = sorted(package.variant_names())
    for name in node.variants:
        if name not in names and name not in OF_EVERY_PACKAGE:
            yield ["variant", node.name, name, difflib.get_close_matches(name, names) or names]


def not_there(file: str) -> list[list[Any]]:
    """Return what is missing for each of the specs in a file."""
    specs = json.loads(Path(file).read_text(encoding="utf-8"))
    return [
        [index, *wrong]
        for index, text in enumerate(specs)
        for node in spack.spec.Spec(text).traverse()
        if node.name
        for wrong in missing(node)
    ]


def main() -> None:
    """Print what is missing."""
    from resolve_for_node import forget_packages

    platform.machine = lambda: sys.argv[1]
    forget_packages()
    sys.stdout.write(json.dumps(not_there(sys.argv[2])) + "\n")


if __name__ == "__main__":
    main()
