"""Compares sourcing an activation script with the commands that a user would otherwise run.

    python benchmarks/activation.py [ROUNDS]

The first table contains complete runs of `bash FILE`, as in a batch script, and also of zsh if it is installed. They
include the start of the shell. The second table contains the time of the lines in a running bash. The rounds alternate
between the commands. The figures are medians.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from uenvtool.core import quoting

ROOT = Path(__file__).resolve().parents[2]
SHELLS = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}
PYTHONPATH = "export PYTHONPATH=\"$(python3 -c 'import site; print(site.getsitepackages()[0])'):${PYTHONPATH-}\"\n"
"""The line of the published guide, which starts Python to print its package directory."""
LABELS = ("nothing", "the same exports as plain lines", "the script", "the guide's PYTHONPATH line")
INSIDE = "start=${EPOCHREALTIME/./}\nsource %s\nend=${EPOCHREALTIME/./}\necho $((end - start))\n"


def main() -> None:
    """Measure and print the results."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = environment(folder)
        shells = [shell for shell in SHELLS if shutil.which(shell)]
        exports = plain_exports(env)
        commands = {label: command for shell in shells for label, command in rows(shell, exports, folder).items()}
        seconds: dict[str, list[float]] = {label: [] for label in commands}
        files = {label: folder / f"bash{number}" for number, label in enumerate(LABELS)}
        inside: dict[str, list[float]] = {label: [] for label in LABELS[1:]}
        for _ in range(rounds):
            for label, command in commands.items():
                seconds[label].append(elapsed(command, env))
            for label, found in inside.items():
                found.append(within(files[label], folder, env))
    report({label: statistics.median(found) for label, found in seconds.items()}, shells)
    line = statistics.median(inside[LABELS[-1]])
    print(f"\n{'in a running bash':46} {'ms':>7} {'x python':>9}")
    for label, found in inside.items():
        value = statistics.median(found)
        print(f"{label:46} {value / 1000:7.2f} {value / line:8.3f}x")


def report(median: dict[str, float], shells: list[str]) -> None:
    """Print the table of complete runs."""
    print(f"{'run':46} {'ms':>7} {'x lines':>8} {'x python':>9}")
    for label, value in median.items():
        shell = next(shell for shell in shells if label.startswith(f"{shell}:"))
        lines, python = median[f"{shell}: {LABELS[1]}"], median[f"bash: {LABELS[-1]}"]
        print(f"{label:46} {value * 1000:7.2f} {value / lines:7.2f}x {value / python:8.3f}x")
    print("budget: at most 2x the export lines, and 0.1x the guide's PYTHONPATH line")


def rows(shell: str, lines: str, folder: Path) -> dict[str, list[str]]:
    """Return the runs of one shell, by label."""
    script = f"source {shlex.quote(str(ROOT / 'activate' / 'clariden.sh'))}\n"
    texts = dict(zip(LABELS, ("", lines, script, PYTHONPATH), strict=True))
    if shell != "bash":
        del texts[LABELS[-1]]
    found = {}
    for number, (label, text) in enumerate(texts.items()):
        path = folder / f"{shell}{number}"
        path.write_text(text, encoding="utf-8")
        found[f"{shell}: {label}"] = [shell, *SHELLS[shell], str(path)]
    return found


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a job in a uenv whose view has NCCL and a hundred other files in its library
    directory."""
    lib = folder / "uenv" / "env" / "default" / "lib"
    lib.mkdir(parents=True)
    for name in ("libnccl.so.2.26.2", "libnccl.so.2", *(f"lib{i}.so" for i in range(100))):
        (lib / name).touch()
    job = {
        "SLURM_JOB_ID": "1234",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "4",
        "SLURM_CPUS_PER_TASK": "72",
        "UENVTOOL_ROOT": "/nowhere",
    }
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "UENV_VIEW": f"{folder}/uenv:pytorch:default", **job}


def plain_exports(env: dict[str, str]) -> str:
    """Return export lines for the variables that the script sets in this job."""
    script = ROOT / "activate" / "clariden.sh"
    ran = subprocess.run(
        ["bash", "-c", f"source {shlex.quote(str(script))}; env -0"], env=env, capture_output=True, check=True
    )
    after = dict(entry.split("=", 1) for entry in ran.stdout.decode().split("\0") if entry)
    found = {name: value for name, value in after.items() if name not in env and name not in ("_", "SHLVL", "PWD")}
    return "".join(f"export {name}={quoting.sh(value)}\n" for name, value in found.items())


def within(lines: Path, folder: Path, env: dict[str, str]) -> float:
    """Return the microseconds that lines take in bash, by bash's clock, or nan for a bash older than 5."""
    path = folder / "inside"
    path.write_text(INSIDE % shlex.quote(str(lines)), encoding="utf-8")
    ran = subprocess.run(["bash", "--norc", str(path)], env=env, check=True, capture_output=True)
    return float(ran.stdout.split()[-1] or "nan")


def elapsed(command: list[str], env: dict[str, str]) -> float:
    """Return the wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
