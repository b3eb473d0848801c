"""`uenvtool job check` of a script of 10,000 lines, and its seconds; budget: 1 s on an idle machine.

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
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    tool = str(Path(sys.executable).parent / "uenvtool")
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "job.sh"
        script.write_text("#!/bin/bash\n#SBATCH --uenv=pytorch/v2.6.0:v1\n" + BLOCK * (LINES // BLOCK.count("\n")))
        for label, command in {
            "python -c pass": [sys.executable, "-c", "pass"],
            "job check, 10,000 lines": [tool, "job", "check", str(script)],
        }.items():
            print(f"{label:24} {statistics.median(elapsed(command, Path(name)) for _ in range(rounds)):6.2f} s")


def elapsed(command: list[str], folder: Path) -> float:
    """The wall-clock seconds of one run; flaws that are found are an answer too."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=False, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
