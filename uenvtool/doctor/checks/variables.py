"""Variables against the tuning for the versions that are there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from uenvtool import quoting
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.model.tuning import AT_MOST, DEFAULT, EXPECTED, REQUIRED, UNSET, Setting

LISTED = 3


def check(here: Snapshot) -> Iterator[Fault]:
    """What is missing, different, forbidden or contradictory. Where nothing runs, nothing is missing."""
    if here.tuned is None:
        return
    missing = []
    forbidden = {setting.name for setting in here.tuned.settings if setting.policy == UNSET}
    for setting in here.tuned.settings:
        if setting.policy == EXPECTED:
            if setting.name not in here.environ and here.is_at_work:
                yield Fault("hook-missing", f"{setting.name} is not set: {setting.reason}")
        elif setting.name in here.environ:
            yield from _of_value(setting, here.environ, forbidden)
        elif _is_fixed(setting) and here.is_at_work:
            missing.append(setting)
    if missing:
        more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
        names = ", ".join(setting.name for setting in missing[:LISTED])
        yield Fault("variable-missing", f"{names}{more}", (here.tuned.again,))


def _of_value(setting: Setting, environ: Mapping[str, str], forbidden: Collection[str]) -> Iterator[Fault]:
    """What is wrong with a variable that is set. forbidden: those that must not be set, which is said by itself."""
    value = environ[setting.name]
    if setting.policy == UNSET:
        if value:
            yield Fault("variable-forbidden", f"{setting.name}: {setting.reason}", (f"unset {setting.name}",))
        return
    for other in setting.conflicts:
        if environ.get(other) and value and other not in forbidden:
            yield Fault("variable-conflict", f"{setting.name} beside {other}", (f"unset {other}",))
    if _is_fixed(setting) and not _is_right(setting, value):
        finding = "variable-other" if setting.policy == DEFAULT else "variable-wrong"
        wanted = f"{setting.name} is {value or 'empty'}, here it is to be {setting.value}: {setting.reason}"
        yield Fault(finding, wanted, (f"export {setting.name}={quoting.sh(setting.value or '')}",))
    elif setting.needs and setting.needs.contains not in environ.get(setting.needs.variable, ""):
        yield Fault("variable-needs", f"{setting.name}={value} needs {setting.needs.hint}", (setting.needs.hint,))


def _is_fixed(setting: Setting) -> bool:
    """Tell if the tuning gives one text for a variable, which a process can be compared with."""
    return setting.policy in (DEFAULT, AT_MOST, REQUIRED) and setting.value is not None and not setting.computed


def _is_right(setting: Setting, value: str) -> bool:
    if setting.policy == AT_MOST and value.isdecimal() and str(setting.value).isdecimal():
        return int(value[:18]) <= int(str(setting.value))
    return value.rstrip("/") == str(setting.value).rstrip("/")
