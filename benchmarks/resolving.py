"""What `uenvtool build` adds to the time that Spack takes to resolve a recipe; the bar is 3 %.

    python benchmarks/resolving.py SPACK PACKAGES [RECIPE [SYSTEM [NAME=PATH ...]]]

SPACK and PACKAGES are checkouts of Spack v1.1.0 and of its packages; hello for this machine is resolved if nothing
else is named. NAME=PATH is another package repository on disk, such as the system's. Added are: the tool's own process
(start, plan, files, the check of the lock), giving the node's answers inside Spack's process, and reading the packages
again that Spack had read before. CPU seconds, own and kernel's: what else the machine does weighs little on them.
SPACK_PYTHON is a Python with clingo.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BAR = 0.03
OWN = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from uenvtool.__main__ import run
code = run(sys.argv[1:])
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
Path({report!r}).write_text(" ".join(str(each.ru_utime + each.ru_stime) for each in used))
sys.exit(code)
"""
"""Runs the tool and reports the CPU seconds of its own process and of those that it started."""
INSIDE = """
import importlib, importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("resolve_for_node", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
sys.argv = sys.argv[1:]
answer = script.answer_as_node
def timed(**answers):
    before = [name for name in sys.modules if name.startswith("spack_repo.") and name.endswith(".package")]
    begun = time.process_time()
    answer(**answers)
    for name in before:
        importlib.import_module(name)
    Path({report!r}).write_text(str(time.process_time() - begun))
script.answer_as_node = timed
script.main()
"""
"""Runs the tool's script in Spack's Python and reports the CPU seconds of the answers and of the second reading."""


def main() -> None:
    """Measure and print."""
    spack, packages = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    recipe, system = [*sys.argv[3:5], *("hello", "local")[len(sys.argv) - 3 :]][:2]
    further = [word for repository in sys.argv[5:] for word in ("--repo", repository)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timing, outside, inside = timing_spack(spack, folder), folder / "outside", folder / "inside"
        words = ["build", recipe, "--system", system, "--concretize", "-o", str(folder / "environment")]
        words += ["--spack", str(timing), "--repo", f"builtin={packages}", *further]
        program = OWN.format(root=str(ROOT), report=str(outside))
        subprocess.run([sys.executable, "-c", program, *words], check=True, stdout=subprocess.DEVNULL)
        own, started = map(float, outside.read_text().split())
        answers = float(inside.read_text())
    alone = started - answers
    print(
        f"{recipe} for {system}, CPU seconds: Spack {alone:.1f}, the tool's process {own:.2f}, in Spack {answers:.2f}"
    )
    print(f"added: {(own + answers) / alone:.2%} (bar {BAR:.0%})")


def timing_spack(spack: Path, folder: Path) -> Path:
    """A Spack that runs the tool's script (`spack ... python SCRIPT ANSWERS`) with a clock around what it adds."""
    program, script = folder / "spack" / "bin" / "spack", folder / "inside.py"
    program.parent.mkdir(parents=True)
    script.write_text(INSIDE.format(report=str(folder / "inside")))
    real = shlex.quote(str(spack / "bin" / "spack"))
    program.write_text(
        f'#!/bin/bash\nwords=()\nfor word; do\n  words+=("$word")\n'
        f'  [[ $word == python ]] && words+=({shlex.quote(str(script))})\ndone\nexec {real} "${{words[@]}}"\n'
    )
    os.chmod(program, 0o755)
    return program.parent.parent


if __name__ == "__main__":
    main()
