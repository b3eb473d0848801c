"""`uenvtool diff RUN1 RUN2`: compares the facts of two runs, from the records and the logs of their jobs."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.core.errors import ExitCode
from uenvtool.core.files import read_named
from uenvtool.core.result import Result, Table
from uenvtool.doctor.files import examine_logs
from uenvtool.doctor.finding import cleaned
from uenvtool.knowledge.secrets import storable

RECORD = "run.txt"
"""The file that each batch job writes into its log directory."""
LOGS = (".log", ".out", ".err", ".txt")
MOST_BYTES = 1_000_000


def is_run(name: str) -> bool:
    """Return whether a path is the log directory, the record or a log of a run."""
    return os.path.isfile(Path(name, RECORD)) or (Path(name).suffix in LOGS and os.path.isfile(name))


def diff_runs(before: str, after: str) -> Result:
    """Return the facts in which two runs differ, with the exit code NO if there are any."""
    old, new = _facts(Path(before)), _facts(Path(after))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    rows = [(name, old.get(name, ""), new.get(name, "")) for name in names]
    data = [{"fact": name, "before": was, "after": now} for name, was, now in rows]
    if not rows:
        return Result(data=data, notes=("the two runs have the same facts",))
    table = Table(headings=("fact", before, after), rows=rows)
    return Result(data=data, tables=(table,), exit_code=ExitCode.NO)


def _facts(path: Path) -> dict[str, str]:
    """Return the facts in the record of a run, and those in its log. The log of logs/train-12 is slurm-train-12.log."""
    folder = path if path.is_dir() else path.parent if path.name == RECORD else None
    if folder is None:
        folder, log = path.parent / "logs" / path.stem.removeprefix("slurm-"), path
    else:
        log = folder.resolve().parent.parent / f"slurm-{folder.resolve().name}.log"
    facts = {}
    if (folder / RECORD).is_file():
        lines = storable(read_named(folder / RECORD, MOST_BYTES).decode(errors="replace")).splitlines()
        facts = dict(line.split("=", 1) for line in lines if not line.endswith("=") and "=" in line)
    if log.is_file():
        examination = cleaned(examine_logs([log]))
        variables = {name: value for run in examination.runs for name, value in run.variables.items()}
        facts = {**variables, **dict(examination.facts), **facts}
    return facts
