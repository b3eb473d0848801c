"""A site file: what every build of a site has in common, and what a user would otherwise name each time."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.core.value import value_class
from uenvtool.knowledge.bind import Binder, children
from uenvtool.knowledge.kinds import SITE
from uenvtool.knowledge.locate import config_folder, locate
from uenvtool.knowledge.source import Node, is_file

VARIABLE = "UENVTOOL_SITE"
"""The variable that names the site file."""
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CREDENTIALS = ("id_variable", "secret_variable", "access_token_variable")


@value_class
class Site:
    """What every build of a site has in common; an empty one where there is no file.

    stores: the folder with a store for each lock. mirrors: as Spack's own configuration has them. push: the name or
    URL of the mirror that a finished build fills. keys: files of keys. path: of the file. tree: with the
    place of each value.
    """

    description: str = ""
    spack: str = ""
    repos: dict[str, str] = field(default_factory=dict)
    stores: str = ""
    jobs: int | None = None
    mirrors: dict[str, Node] = field(default_factory=dict)
    push: str = ""
    keys: tuple[str, ...] = ()
    path: Path | None = None
    tree: Node | None = field(default=None, compare=False, repr=False)

    @property
    def spack_mirrors(self) -> dict[str, Any]:
        """Return the mirrors as Spack reads them."""
        return {name: node.plain() for name, node in self.mirrors.items()}

    def defaults(self, spack: Path | None, repos: Mapping[str, Path]) -> dict[str, Any]:
        """Return the Spack and the words of --repo that count beside those that a user named."""
        named = {**self.repos, **{name: os.fspath(path) for name, path in repos.items()}}
        own = Path(self.spack) if self.spack else None
        return {"spack": spack or own, "repo": tuple(f"{name}={path}" for name, path in named.items())}

    def position(self, *path: str | int) -> Position | None:
        """Return the place of a value; None where there is no file."""
        return self.tree.at(path).position if self.tree else None


def load_site(name: str) -> Site:
    """Return the site file of that path, as it is written. Raises BadInput with everything that is wrong in it."""
    return _bound(Binder.of(locate(SITE, name), SITE))


def site_here(named: Path | None = None, environ: Mapping[str, str] = os.environ) -> Site:
    """Return the site file that counts, with its variables filled in: the named one, that of UENVTOOL_SITE, or
    site.yaml in the user's own configuration. Without any of them, an empty one.

    The current folder is not looked into: what a site file names is run. Raises BadInput for what is wrong in it, and
    for each variable that it needs and that is not set.
    """
    own = config_folder() / "site.yaml"
    path = os.fspath(named) if named else environ.get(VARIABLE) or (os.fspath(own) if is_file(own) else "")
    if not path:
        return Site()
    binder = Binder.of(locate(SITE, os.path.abspath(path)), SITE)
    problems: list[Problem] = []
    binder.tree = _filled(binder.tree, environ, problems)
    site = _bound(binder)
    problems += [
        _unset(node) for mirror in site.mirrors.values() for node in _variables(mirror) if node.value not in environ
    ]
    BadInput.raise_any(problems)
    return site


def _bound(binder: Binder) -> Site:
    site = binder.whole(Site, path=binder.chain[0].path, tree=binder.tree)
    if site.push and "/" not in site.push and site.push not in site.mirrors:
        known = ", ".join(site.mirrors) or "none"
        binder.problem(f"no mirror is called {site.push!r}", site.position("push"), f"mirrors here: {known}")
    binder.finish()
    return site


def _filled(node: Node, environ: Mapping[str, str], problems: list[Problem]) -> Node:
    """Return a tree with the value of a variable in place of each `${NAME}`, and the home folder in place of `~/`."""
    if isinstance(node.value, dict):
        return replace(node, value={name: _filled(child, environ, problems) for name, child in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[_filled(child, environ, problems) for child in node.value])
    if not isinstance(node.value, str):
        return node
    names = set(_PLACEHOLDER.findall(node.value))
    problems += [_unset(replace(node, value=name)) for name in sorted(names - set(environ))]
    text = _PLACEHOLDER.sub(lambda match: environ.get(match[1], ""), node.value)
    return replace(node, value=os.path.expanduser(text) if text.startswith("~/") else text)


def _variables(mirror: Node) -> list[Node]:
    """Return the names of variables that a mirror has its credentials in."""
    if not isinstance(mirror.value, dict):
        return []
    found = [node for name, node in children(mirror) if name in _CREDENTIALS]
    return found + [
        node for _, child in children(mirror) if isinstance(child.value, dict) for node in _variables(child)
    ]


def _unset(node: Node) -> Problem:
    return Problem(f"the variable {node.value} is not set", node.position, f"export {node.value}=...")
