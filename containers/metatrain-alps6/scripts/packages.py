"""Installs Python packages into an image whose own torch stays: packages.py [--keep=PATTERN]... NAME...

A package of the base that a pattern of --keep covers keeps its version, and none that the base lacks is added, but for
those of --except. On a base without a torch there is nothing to keep. --index=URL: where pip looks beside PyPI.
Runs in the image's own Python, without uenvtool.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import re
import runpy
import sys
import tempfile


def main() -> int:
    """Install, and say what pip changed that it must not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="append", default=[])
    parser.add_argument("--except", action="append", default=[], dest="harmless")
    parser.add_argument("--index", action="append", default=[])
    parser.add_argument("packages", nargs="+")
    options = parser.parse_args()
    if "torch" not in kept(["torch"], []):
        options.keep = []
    before = kept(options.keep, options.harmless)
    indexes = [f"--extra-index-url={url}" for url in options.index]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in sorted(before.items()))
        constraints.flush()
        failed = run_pip(["install", "--no-cache-dir", "--constraint", constraints.name, *indexes, *options.packages])
    if failed:
        tell("pip cannot install these packages beside what the base has, which stays:")
        sys.stderr.writelines(f"  {name} {version}\n" for name, version in sorted(before.items()))
        return 1
    importlib.invalidate_caches()
    after = kept(options.keep, options.harmless)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    for name in changed:
        tell(f"pip changed {name} from {before.get(name, 'nothing')} to {after.get(name, 'nothing')}")
    if changed:
        sys.stderr.write("hint: leave out the package that wants it, or take a base that has it\n")
    return 1 if changed else 0


def run_pip(arguments: list[str]) -> bool:
    """Run pip in this process. True if it failed."""
    sys.argv = ["pip", *arguments]
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return bool(end.code)
    return False


def tell(message: str) -> None:
    """Say something on standard error."""
    sys.stderr.write(f"uenvtool: {message}\n")


def kept(patterns: list[str], harmless: list[str]) -> dict[str, str]:
    """The installed packages that patterns cover, name to version."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if covered(name, patterns) and not covered(name, harmless):
            found.setdefault(name, distribution.version)  # the first on the path is the one that is imported
    return found


def covered(name: str, patterns: list[str]) -> bool:
    """Tell if one of the patterns is about a name."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
