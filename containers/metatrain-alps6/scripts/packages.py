"""Installs Python packages into an image and keeps its torch: packages.py [--keep=PATTERN]... NAME...

An installed package that matches a pattern of --keep stays at its version, and pip adds no further package that matches
the pattern. Packages that match --except are exempt. On a base without torch, --keep is ignored. With --index=URL, pip
also searches this index. The script runs in the image's Python, without uenvtool.
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
    """Install the packages, and report any kept package that pip changed."""
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
        tell("pip cannot install these packages together with the packages of the base, which must not change:")
        sys.stderr.writelines(f"  {name} {version}\n" for name, version in sorted(before.items()))
        return 1
    importlib.invalidate_caches()
    after = kept(options.keep, options.harmless)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    for name in changed:
        tell(f"pip changed {name} from {before.get(name, 'nothing')} to {after.get(name, 'nothing')}")
    if changed:
        sys.stderr.write("hint: remove the package that requires this version, or use a base that has it\n")
    return 1 if changed else 0


def run_pip(arguments: list[str]) -> bool:
    """Run pip in this process. Return whether it failed."""
    sys.argv = ["pip", *arguments]
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return bool(end.code)
    return False


def tell(message: str) -> None:
    """Print a message to standard error."""
    sys.stderr.write(f"uenvtool: {message}\n")


def kept(patterns: list[str], harmless: list[str]) -> dict[str, str]:
    """Return the version of each installed package that matches the patterns, by name."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if covered(name, patterns) and not covered(name, harmless):
            versions.setdefault(name, distribution.version)  # Python imports the first one on the path
    return versions


def covered(name: str, patterns: list[str]) -> bool:
    """Return whether a pattern matches a name."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
