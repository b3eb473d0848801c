"""How often a training should write a checkpoint."""

from __future__ import annotations

import math
import re

from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
SOURCE = "Young, doi:10.1145/361147.361115; Daly, doi:10.1016/j.future.2004.11.016"


def interval(cost: str, mtbf: str) -> Result:
    """Return the interval sqrt(2 T1 T2) of Young and Daly, in seconds.

    cost: T1, how long a checkpoint takes to write. mtbf: T2, the mean time between failures of the whole job.
    Raises BadInput for a text that is no time, and if a checkpoint takes as long as the job lives.
    """
    first, second = seconds(cost, "--cost"), seconds(mtbf, "--mtbf")
    if first >= second:
        raise BadInput("a checkpoint takes as long as the job runs between failures", hint="no interval helps then")
    found = math.sqrt(2 * first * second)
    data = {
        "cost": first,
        "mtbf": second,
        "interval": found,
        "lost": first / found + found / (2 * second),
        "source": SOURCE,
    }
    text = f"every {shown(found)}; about {data['lost']:.1%} of the time then goes to checkpoints and lost work"
    return Result(data=data, text=text, notes=(f"sqrt(2 * {shown(first)} * {shown(second)}), {SOURCE}",))


def seconds(text: str, option: str) -> float:
    """Return a time such as 90s, 5m, 1.5h or 2d, in seconds. Raises BadInput for another text and for zero."""
    found = _TIME.fullmatch(text.strip())
    if not found or float(found[1]) == 0:
        raise BadInput(f"{option} {text!r} is no time", hint=f"for example {option} 90s, 5m, 12h or 3d")
    return float(found[1]) * UNITS[found[2] or "s"]


def shown(number: float) -> str:
    """Return seconds as a person reads them."""
    hours, rest = divmod(round(number), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"
