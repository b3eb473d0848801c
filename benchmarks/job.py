"""Writing a job, and checking a script of 10,000 lines; budgets: 15x a bare `python -c pass`, and 1 s.

python benchmarks/job.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = 10_000
JOB = ("--system", "clariden", "--account", "g123", "--recipe", "pytorch-2.6")
BLOCK = """\
# a comment, as scripts have them
export OMP_NUM_THREADS=8
export DATA="${SCRATCH}/data set/$(date +%F)"
if [[ -d $DATA ]]; then
    srun -ul -c "$SLURM_CPUS_PER_TASK" bash -c 'export RANK=$SLURM_PROCID; exec python train.py --data "$DATA"'
fi

cat > options.yaml <<END
batch: 8
END
"""


def main() -> None:
    """Measure and print; rounds are interleaved, so that what else the machine does weighs on all alike."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    tool = str(Path(sys.executable).parent / "uenvtool")
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "job.sh"
        script.write_text("#!/bin/bash\n#SBATCH --uenv=pytorch/v2.6.0:v1\n" + BLOCK * (LINES // BLOCK.count("\n")))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "job, uenv (budget 15x)": [tool, "job", *JOB, "--", "python", "train.py"],
            "job check, 10,000 lines": [tool, "job", "check", str(script)],
        }
        seconds: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                seconds[label].append(elapsed(command, Path(name)))
    bare = statistics.median(seconds["python -c pass"])
    for label, found in seconds.items():
        print(f"{label:24} {statistics.median(found):6.2f} s {statistics.median(found) / bare:6.1f}x")


def elapsed(command: list[str], folder: Path) -> float:
    """The wall-clock seconds of one run; flaws that are found are an answer too."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=False, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
