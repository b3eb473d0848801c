"""Variables against the tuning for the versions that are there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from uenvtool.core import quoting
from uenvtool.core.words import listed
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

if TYPE_CHECKING:
    from uenvtool.knowledge.tuning import Guard, Setting

LISTED = 3


def check(here: Snapshot) -> Iterator[Fault]:
    """Yield what is missing, different, forbidden or contradictory. Where nothing runs, nothing is missing."""
    if here.tuned is None:
        return
    missing = []
    forbidden = {setting.name for setting in here.tuned.settings if setting.removes}
    open_guards = [guard for guard in here.tuned.guards if _is_open(guard, here)]
    named = {name for guard in open_guards for name in guard.variables}
    for guard in open_guards:
        yield Fault("guard-open", f"{guard.danger}: set {guard.choice}", (f"export {guard.one_of[0]}",))
    for (name, value), need in here.tuned.needs.items():
        if here.environ.get(name) == value and need.contains not in here.environ.get(need.variable, ""):
            yield Fault("variable-needs", f"{name}={value} needs {need.hint}", (need.hint,))
    for setting in here.tuned.settings:
        if setting.name in named:
            continue
        if setting.is_expected:
            if setting.name not in here.environ and here.is_at_work:
                yield Fault("hook-missing", f"{setting.name} is not set: {setting.reason}")
        elif setting.name in here.environ:
            yield from _of_value(setting, here.environ, forbidden)
        elif setting.is_fixed and here.is_at_work:
            missing.append(setting)
    if missing:
        names = listed([setting.name for setting in missing], LISTED)
        yield Fault("variable-missing", names, (here.tuned.again,))


def _is_open(guard: Guard, here: Snapshot) -> bool:
    """Tell if nothing keeps a danger away where trainings run, or where somebody set one of the variables for it."""
    return guard.way(here.environ) is None and (
        here.is_at_work or any(name in here.environ for name in guard.variables)
    )


def _of_value(setting: Setting, environ: Mapping[str, str], forbidden: Collection[str]) -> Iterator[Fault]:
    """Find what is wrong with a variable that is set. forbidden: those that must not be, which is said by itself."""
    value = environ[setting.name]
    if setting.removes:
        if value:
            yield Fault("variable-wrong", f"{setting.name}: {setting.reason}", (f"unset {setting.name}",))
        return
    for other in setting.conflicts:
        if environ.get(other) and value and other not in forbidden:
            yield Fault("variable-wrong", f"{setting.name} beside {other}", (f"unset {other}",))
    if setting.is_fixed and not setting.accepts(value):
        finding = "variable-other" if setting.is_choice else "variable-wrong"
        wanted = f"{setting.name} is {value or 'empty'}, here it is to be {setting.value}: {setting.reason}"
        yield Fault(finding, wanted, (f"export {setting.name}={quoting.sh(setting.value or '')}",))
