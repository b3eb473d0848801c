"""`uenvtool upgrade`: a recipe moved to another version of a package, with what has to move together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.env.edit.edit import change
from uenvtool.env.look_up import Repositories, at_hand
from uenvtool.env.repository import Missing, problems
from uenvtool.env.request import EditRequest, UpgradeRequest
from uenvtool.knowledge.checks import load_recipe, version_requests
from uenvtool.knowledge.recipe import Coupling, Recipe
from uenvtool.knowledge.source import instead_of_file
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec


def upgrade(request: UpgradeRequest) -> Result:
    """Move a recipe's package to another version. What is coupled to it moves where the recipe holds it elsewhere.

    With package repositories at hand, pins that none of them has move to the nearest version, and what cannot be moved
    is said. Raises BadInput for a package that the recipe does not ask for, for a version of it that no repository
    has, and as `edit` does.
    """
    recipe = load_recipe(request.recipe)
    package, wanted = _target(recipe, request.to)
    rule = _coupling(recipe, package, wanted)
    version = str(rule.when.versions).lstrip("=") if rule else str(wanted.versions)
    order = EditRequest(
        recipe=request.recipe,
        add=(_moved(recipe, package, version), *(_coupled(recipe, rule, root=True) if rule else ())),
        pin=tuple(_coupled(recipe, rule, root=False)) if rule else (),
        dry_run=True,
    )
    repositories = at_hand(request.spack, request.repo)
    left = _missing(order, repositories)
    movable = [wrong for wrong in left if wrong.kind == "version" and wrong.known and wrong.package in recipe.require]
    if pins := tuple(f"{wrong.package}@={wrong.known[0]}" for wrong in movable if not wrong.request.soft):
        order = replace(order, pin=(*order.pin, *pins))
        left = _missing(order, repositories)
    BadInput.raise_any(problems([wrong for wrong in left if wrong.package == package and not wrong.request.soft]))
    result = change(replace(order, dry_run=request.dry_run), Repositories())
    why = (f"coupled to it: {rule.reason} ({rule.position})",) if rule else ("no coupling is known for it",)
    unchecked = () if repositories.folders else ("no package repository was looked into: --repo builtin=PATH",)
    warnings = tuple(f"{wrong.message}; {wrong.hint}" for wrong in problems(left))
    return replace(result, notes=(*why, *unchecked, *result.notes), warnings=(*result.warnings, *warnings))


def _target(recipe: Recipe, text: str) -> tuple[str, Spec]:
    """Return the package that is to be moved, as Spack names it, and the constraint on its version."""
    try:
        spec = parse_spec(text)
    except SpecSyntaxError as error:
        raise BadInput(f"--to {text}: not PKG@VERSION: {error}", hint="for example --to torch@2.10") from error
    asked_for = {request.package for request in version_requests(recipe)} | {root.spec.package for root in recipe.roots}
    package = next((name for name in (spec.package, f"py-{spec.package}") if name in asked_for), "")
    if spec.versions is None:
        raise BadInput(f"--to {text} is not PKG@VERSION", hint="for example --to torch@2.10")
    if not package:
        raise BadInput([unknown(f"package of {recipe.name}", spec.package, sorted(asked_for))])
    return package, spec


def _coupling(recipe: Recipe, package: str, wanted: Spec) -> Coupling | None:
    """Return the rule of the newest version that is wanted."""
    fitting = [
        (rule.when.versions.single, rule)
        for rule in recipe.couplings
        if rule.when.package == package and rule.when.versions and rule.when.versions.single and wanted.versions
        if wanted.versions.contains(rule.when.versions.single)
    ]
    return max(fitting, key=lambda pair: pair[0], default=(None, None))[1]


def _moved(recipe: Recipe, package: str, version: str) -> str:
    """Return the root spec of a package at another version; what it inherits is laid under it anyway."""
    new = parse_spec(f"{package}@{version}")
    file = recipe.chain[0]
    own = [root.spec for root in recipe.roots if root.position.file == file.shown and not file.is_built_in]
    return next((new.over(spec).text for spec in own if spec.package == package), new.text)


def _coupled(recipe: Recipe, rule: Coupling, *, root: bool) -> Iterator[str]:
    """Yield what a rule moves of what the recipe holds elsewhere: root specs, or pins."""
    roots = {named.spec.package: named.spec.versions for named in recipe.roots}
    pins = {name: pin.version for name, pin in recipe.require.items()}
    for pin in rule.then:
        held = (roots if root else pins).get(pin.package)
        if held and pin.version and not held.intersects(pin.version):
            yield _moved(recipe, pin.package, str(pin.version)) if root else f"{pin.package}@{pin.version}"


def _missing(order: EditRequest, repositories: Repositories) -> list[Missing]:
    """Return what of a changed recipe no package repository has."""
    if not repositories.folders:
        return []
    changed = change(order, Repositories()).data
    path = Path(changed["file"])
    with instead_of_file(path, changed["text"].encode()):
        return repositories.missing_for(str(path.absolute()))
