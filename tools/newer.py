#!/usr/bin/env python3
"""Resolves the shipped recipes with newer Spack packages, and prints the changed versions, for maintainers.

    .venv-test/bin/python tools/newer.py PACKAGES [RECIPE...] [-- OPTION...]

PACKAGES is a checkout of spack-packages, for example of its newest release. The script resolves each recipe, or the
named recipes, for the systems that have an environment of it in `envs/`, or else for the recipe's home. It passes the
arguments after `--` to `uenvtool build`, such as `--spack DIR` or `--repo alps=DIR`. It changes no shipped file, and
writes the new locks into a directory that it prints at the end. Each recipe takes minutes. The exit code is 1 if a
recipe does not resolve.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ENVS = Path(__file__).resolve().parents[1] / "envs"


def uenvtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uenvtool and wait for its end."""
    return subprocess.run([sys.executable, "-m", "uenvtool", *words], capture_output=True, text=True, check=False)


def targets(recipe: str) -> Iterator[tuple[list[str], Path | None]]:
    """Yield the options that select a system and uarch for a recipe, with the directory of its lock, if any."""
    locks = sorted(ENVS.glob(f"{recipe}/*/spack.lock"))
    for lock in locks:
        system, uarch = lock.parent.name.rsplit("-", 1)
        yield ["--system", system, "--uarch", uarch], lock.parent
    if not locks:
        yield [], None


def moved(committed: Path, made: Path) -> list[str]:
    """Return a line for each package that differs from the committed lock."""
    rows = json.loads(uenvtool("diff", committed, made, "--json").stdout)
    return [f"{row['package']}: {row['before'] or 'none'} -> {row['after'] or 'none'}" for row in rows]


def main(words: Sequence[str]) -> int:
    """Run the script and return its exit code."""
    at = words.index("--") if "--" in words else len(words)
    (packages, *recipes), options = words[:at], words[at + 1 :]
    recipes = recipes or [row["name"] for row in json.loads(uenvtool("list", "recipes", "--json").stdout)["recipes"]]
    scratch, code = Path(tempfile.mkdtemp(prefix="uenvtool-newer-")), 0
    for recipe in recipes:
        for target, committed in targets(recipe):
            made = scratch / recipe / (committed.name if committed else "home")
            newer = ["--repo", f"builtin={Path(packages).resolve()}", "-o", str(made), "--concretize"]
            done = uenvtool("build", recipe, *target, *newer, *options)
            if done.returncode != 0:
                state, lines, code = "does not resolve", done.stderr.strip().splitlines(), 1
            elif committed is None:
                state, lines = "resolves; envs/ has no lock for it", []
            else:
                lines = moved(committed, made)
                state = f"{len(lines)} packages changed"
            sys.stdout.write("\n  ".join([f"{recipe} {' '.join(target)}: {state}", *lines]) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"the new locks: {scratch}\n")
    return code


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
