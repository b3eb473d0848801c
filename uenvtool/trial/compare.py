"""`uenvtool diff RUN1 RUN2`: compares the facts of two runs, from the records and the logs of their jobs."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.files import read_named
from uenvtool.core.result import Result, Table
from uenvtool.core.words import counted
from uenvtool.doctor.files import examine_logs
from uenvtool.doctor.finding import cleaned
from uenvtool.knowledge.secrets import storable

RECORD = "run.txt"
"""The file that each batch job writes into its log directory."""
LOGS = (".log", ".out", ".err", ".txt")
MOST_BYTES = 1_000_000


def are_runs(*names: str) -> bool:
    """Return whether paths are log directories, records or logs of runs. One directory with a record is enough."""
    has_record = any(os.path.isfile(Path(name, RECORD)) for name in names)
    return has_record or all(Path(name).suffix in LOGS and os.path.isfile(name) for name in names)


def diff_runs(before: str, after: str) -> Result:
    """Return the differing facts, with the exit code NO if there are any. Raises BadInput if a path is not a run."""
    old, new = _facts(Path(before)), _facts(Path(after))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    if not names:
        return Result(data=[], notes=(f"the two runs have the same {counted(len(old), 'fact')}",))
    rows = [(name, old.get(name, ""), new.get(name, "")) for name in names]
    data = [dict(zip(("fact", "before", "after"), row, strict=True)) for row in rows]
    return Result(data=data, tables=(Table(headings=("fact", before, after), rows=rows),), exit_code=ExitCode.NO)


def _facts(path: Path) -> dict[str, str]:
    """Return the facts in the record of a run, and those in its log. The log of logs/train-12 is slurm-train-12.log."""
    folder = path if path.is_dir() else path.parent if path.name == RECORD else None
    if folder is None:
        folder, log = path.parent / "logs" / path.stem.removeprefix("slurm-"), path
    else:
        log = folder.resolve().parent.parent / f"slurm-{folder.resolve().name}.log"
    if not (has_record := (folder / RECORD).is_file()) and not log.is_file():
        raise BadInput(f"{str(path)!r} is not a run", hint="name a log, or a log directory such as logs/train-1234")
    text = storable(read_named(folder / RECORD, MOST_BYTES).decode(errors="replace")) if has_record else ""
    facts = dict(line.split("=", 1) for line in text.splitlines() if not line.endswith("=") and "=" in line)
    if log.is_file():
        examination = cleaned(examine_logs([log]))
        variables = {name: value for run in examination.runs for name, value in run.variables.items()}
        facts = {**variables, **dict(examination.facts), **facts}
    return facts
