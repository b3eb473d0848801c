#!/usr/bin/env python3
"""Makes small changes to the program, one at a time, and prints the changes that no test notices.

    .venv-test/bin/python tools/mutants.py uenvtool/job uenvtool/core/files/atomic.py
    .venv-test/bin/python tools/mutants.py --since main

A change reverses a comparison, makes a condition always true, or removes a statement. After each change, the script
runs the tests of the file's package (tests/PACKAGE, and the tables of refusals) until one fails. If all of them pass,
the change is a case that needs a test, code that nothing needs, or a change that makes no difference. The script prints
each such change as FILE:LINE with the old and the new code. The last line is the score. The same seed gives the same
changes.

The script changes the files in place and restores them, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("uenvtool")
TESTS = Path("tests")
EVERY_ROOMS = TESTS / "test_refusals.py"
TURNED = {ast.Eq: ast.NotEq, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.In: ast.NotIn, ast.Is: ast.IsNot}
TURNED |= {new: old for old, new in TURNED.items()}
NOTHING = ast.Constant(None)
PATIENCE = 3
"""A run that takes this many times as long as with the unchanged program counts as failed: it hangs."""


@dataclass(frozen=True)
class Change:
    """One small change to a file: the bytes from `start` to `end` become `new`."""

    path: Path
    line: int
    start: int
    end: int
    new: str

    def applied(self, content: bytes) -> bytes:
        return content[: self.start] + self.new.encode() + content[self.end :]


def replaced(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield each part of a node that can be changed, with its replacement."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in TURNED:
            yield node, ast.Compare(node.left, [TURNED[type(operator)]()], node.comparators)
        case ast.BoolOp():
            yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node, node.operand
        case ast.Constant(value=bool()):
            yield node, ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield node, ast.Constant(node.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            yield node.test, ast.Constant(False)
            if not isinstance(node, ast.While):
                yield node.test, ast.Constant(True)
        case ast.comprehension(ifs=[condition, *_]):
            yield condition, ast.Constant(True)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield value, NOTHING
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield node, ast.Pass()


def in_functions(node: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes in the bodies of functions, except those of f-strings, whose position Python 3.11 lacks."""
    if inside:
        yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        inside = True
        children: list[ast.AST] = [*node.body]
    else:
        children = [] if isinstance(node, ast.JoinedStr) else [*ast.iter_child_nodes(node)]
    for child in children:
        yield from in_functions(child, inside)


def changes(path: Path) -> list[Change]:
    """Return all changes that can be made to a file."""
    content = path.read_bytes()
    lines = [0]
    for line in content.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for node in in_functions(ast.parse(content)):
        for old, new in replaced(node):
            start = lines[old.lineno - 1] + old.col_offset
            end = lines[old.end_lineno - 1] + old.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(new))
            found.append(Change(path, old.lineno, start, end, f"({text})" if isinstance(new, ast.expr) else text))
    return found


def passes(tests: list[str], workers: int, limit: float | None = None) -> bool:
    """Return whether all of these tests pass. The run ends at the first failure, or after `limit` seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-n", str(workers), "--dist", "loadgroup"] if workers > 1 else []
    group = subprocess.Popen(
        [*command, *tests], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return group.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if group.poll() is None:
            os.killpg(group.pid, signal.SIGKILL)
            group.wait()


def survives(change: Change, number: int, tests: list[str], workers: int, limit: float) -> bool:
    """Return whether the tests pass with the change, and restore the file."""
    before, status = change.path.read_bytes(), change.path.stat()
    try:
        change.path.write_bytes(change.applied(before))
        # Python identifies the source of bytecode by size and time in seconds, so each change gets a different second
        os.utime(change.path, (status.st_atime, int(status.st_mtime) + number))
        return passes(tests, workers, limit)
    finally:
        change.path.write_bytes(before)
        os.utime(change.path, ns=(status.st_atime_ns, status.st_mtime_ns))


def tests_of(path: Path) -> tuple[str, ...]:
    """Return the tests of the package that contains a file, or those of the command line for a top-level file."""
    room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "cli"
    found = [TESTS / room, EVERY_ROOMS]
    return tuple(str(place) for place in found if place.exists())


def python_files(places: list[str], since: str | None) -> list[Path]:
    """Return uenvtool's files below these paths, and those changed since a commit."""
    found = {file for place in map(Path, places) for file in ([place] if place.is_file() else place.rglob("*.py"))}
    if since:
        command = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", f"{PACKAGE}/*.py"]
        found |= {Path(line) for line in subprocess.check_output(command, text=True).splitlines()}
    return sorted(found)


def main() -> int:
    """Make the requested changes, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", metavar="PLACE", help="a file or directory below uenvtool/")
    parser.add_argument("--since", metavar="COMMIT", help="also the files that changed since COMMIT")
    parser.add_argument("--each", type=int, default=5, metavar="N", help="number of changes per file (5)")
    parser.add_argument("--minutes", type=float, default=60, metavar="N", help="start no change after this time (60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random choice of changes (1)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="number of parallel tests (one per core)"
    )
    parser.add_argument(
        "--tests", action="append", metavar="PATH", help="run these tests instead of those of the package"
    )
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    end = time.monotonic() + 60 * words.minutes
    chance = random.Random(words.seed)
    chosen = []
    for path in python_files(words.places, words.since):
        possible = changes(path)
        chosen += chance.sample(possible, min(words.each, len(possible)))
    chance.shuffle(chosen)  # so that a run that is out of time has skipped changes of all files

    seconds: dict[tuple[str, ...], float] = {}
    killed = survived = 0
    for number, change in enumerate(chosen, 1):
        if time.monotonic() > end:
            break
        tests = tuple(words.tests or tests_of(change.path))
        if tests not in seconds:
            began = time.monotonic()
            if not passes([*tests], words.workers):
                print(f"the tests fail without any change: {' '.join(tests)}", file=sys.stderr)
                return 1
            seconds[tests] = time.monotonic() - began
        old = change.path.read_bytes()[change.start : change.end].decode()
        if survives(change, number, [*tests], words.workers, PATIENCE * seconds[tests] + 30):
            survived += 1
            print(f"{change.path}:{change.line}: {' '.join(old.split())}  ->  {change.new}", flush=True)
        else:
            killed += 1
    left = len(chosen) - killed - survived
    print(f"the tests noticed {killed} of {killed + survived} changes" + (f"; {left} were not tried" if left else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
