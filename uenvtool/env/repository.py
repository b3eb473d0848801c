"""What an environment asks for of its package repositories, and what of it none has: said before Spack looks for a
solution, which takes minutes and ends in words about other things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uenvtool.core.errors import Position, Problem
from uenvtool.core.value import value_class
from uenvtool.core.words import listed
from uenvtool.env.environment import Environment, hard_pins
from uenvtool.knowledge.locate import in_your_own

MOST_NAMED = 4
NOT_DEPRECATED = " (deprecated ones do not count)"


@value_class
class Request:
    """A spec that an environment asks for. soft: it is a preference."""

    spec: str
    position: Position
    soft: bool = False


@value_class
class Missing:
    """What no repository has. kind: package, version or variant. known: what there is instead, the nearest first."""

    request: Request
    kind: str
    package: str
    name: str
    known: Sequence[str]

    @property
    def problem(self) -> Problem:
        """Return it as what a user sees."""
        named = f"{self.package}@{self.name}" if self.kind == "version" else self.name or self.package
        where = f"package {self.package} has no variant" if self.kind == "variant" else "no package repository has"
        nearest = f"the nearest that there is: {listed(self.known, MOST_NAMED)}" if self.known else "nothing is like it"
        add = f"; or add it in packages/{self.package.replace('-', '_')}/package.py" if self.kind == "version" else ""
        return Problem(
            f"{where} {named}{NOT_DEPRECATED if self.kind == 'version' else ''}",
            self.request.position,
            f"{nearest}{add}{in_your_own(self.request.position)}",
        )


def problems(found: Sequence[Missing]) -> list[Problem]:
    """Return what no package repository has as what a user sees, preferences in one."""
    soft = [wrong for wrong in found if wrong.request.soft and wrong.kind == "version"]
    shown = [wrong.problem for wrong in found if wrong not in soft]
    if not soft:
        return shown
    named = [f"{wrong.package}@{wrong.name.lstrip('=')} (has {listed(wrong.known, 1)})" for wrong in soft]
    hint = (
        "prefer others, `published: {differences: {PACKAGE: {prefer: VERSION, reason: ...}}}`, "
        "or none of the table, `published: {prefer: false}`"
    )
    message = f"no package repository has {len(soft)} of the preferred versions{NOT_DEPRECATED}: {', '.join(named)}"
    return [*shown, Problem(message, soft[0].request.position, hint)]


def requests(environment: Environment) -> Iterator[Request]:
    """Yield each spec that an environment asks for, but of packages whose version the system decides."""
    recipe, facts = environment.recipe, environment.system.facts(environment.node.uarch)
    of_the_system = {settings.name for settings in environment.packages if settings.externals}
    for root in environment.roots:
        if root.package not in of_the_system:
            yield Request(spec=root.text, position=root.origin)
    for name, pin in hard_pins(recipe, facts).items():
        if name not in of_the_system and not pin.provider:
            version = f"@{pin.version}" if pin.version else ""
            yield Request(spec=f"{name}{version} {pin.variants}", position=pin.position)
    for settings in environment.packages:
        if preferred := settings.preferred:
            for version in preferred.versions:
                yield Request(spec=f"{settings.name}@{version}", position=preferred.origin, soft=True)
