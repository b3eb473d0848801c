"""Measures the time that `uenvtool image build` adds to `spack install` while packages are installed.

    python benchmarks/image_install.py SPACK PACKAGES ENVIRONMENT STORE [ROUNDS]

SPACK is a checkout of Spack, and PACKAGES is a checkout of its package repository. ENVIRONMENT is a resolved
environment (`uenvtool build hello`). STORE is the directory that `uenvtool image build ENVIRONMENT --store STORE`
filled from sources. The times of two installations differ by more than uenvtool's own time. The benchmark therefore
adds up the time of the install step outside of Spack, and the time to start Spack's namespace. Neither depends on the
build time, which is in Spack's records in STORE.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from uenvtool.core import processes
from uenvtool.env.install import MOUNTING, InstallOptions, install
from uenvtool.env.installable import read_installable
from uenvtool.env.program import find_spack, repository_directory

BUDGET = 0.05


def main() -> None:
    """Measure and print the results."""
    spack, packages, environment, store = (Path(word).resolve() for word in sys.argv[1:5])
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 5
    found = find_spack(spack)
    if found is None:
        raise SystemExit(f"no Spack at {spack}")
    own, namespaces, lines = [], [], []
    for _ in range(rounds):
        start = time.perf_counter()
        options = InstallOptions(repos={"builtin": repository_directory("builtin", packages)})
        with SpackTime() as of_spack:
            install(found, read_installable(environment), store, options)
        own.append(time.perf_counter() - start - of_spack.seconds)
        lines.append(of_spack.lines)
        namespaces.append(namespace_seconds(store, read_installable(environment).mount))
    built = building_seconds(store)
    ours = statistics.median(own) + statistics.median(namespaces)
    print(f"Spack built {len(built)} packages in {sum(built):.1f} s, according to its records")
    print(f"uenvtool's own time: {statistics.median(own):.3f} s, {statistics.median(lines)} lines of output processed")
    print(f"starting Spack's namespace: {statistics.median(namespaces):.3f} s")
    print(f"overhead: {100 * ours / sum(built):.2f} %  budget {100 * BUDGET:.0f} %")


class SpackTime:
    """Measures the time in runs of Spack, and counts the lines that they print."""

    def __enter__(self) -> SpackTime:
        """Start to count."""
        self.seconds, self.lines, self.usual = 0.0, 0, processes.run
        processes.run = self.run
        return self

    def __exit__(self, *_: object) -> None:
        """Stop counting."""
        processes.run = self.usual

    def run(
        self, argv: Sequence[str | Path], *, on_line: processes.LineHandler | None = None, **more: Any
    ) -> processes.Completed:
        """Run Spack. The time in which uenvtool processes a line of output is not counted."""
        following = 0.0

        def follow(line: str) -> None:
            nonlocal following
            begun = time.perf_counter()
            if on_line:
                on_line(line)
            following += time.perf_counter() - begun
            self.lines += 1

        start = time.perf_counter()
        done = self.usual(argv, on_line=follow, **more)
        self.seconds += time.perf_counter() - start - following
        return done


def namespace_seconds(store: Path, mount: str) -> float:
    """Return the time to start a program that sees the store at the mount point, without the program's own time."""
    start = time.perf_counter()
    subprocess.run([*MOUNTING, store, mount, "true"], check=True)
    return time.perf_counter() - start


def building_seconds(store: Path) -> list[float]:
    """Return the build time of each package in Spack's records."""
    records = [json.loads(path.read_text()) for path in store.rglob(".spack/install_times.json")]
    return [float(record["total"]) for record in records]


if __name__ == "__main__":
    main()
