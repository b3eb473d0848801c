"""Writing a job, checking a script of 10,000 lines, and 1,400 scripts; budgets: 15x `python -c pass`, 1 s, 12 s.

Seconds of CPU, which a busy machine lengthens less than those of the clock.

python benchmarks/job.py [ROUNDS]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = 10_000
SCRIPTS = 1_400
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
        scripts = [Path(name) / f"job{i}.sh" for i in range(SCRIPTS)]
        for i, path in enumerate(scripts):
            head = ("#SBATCH --uenv=pytorch/v2.6.0:v1", "#SBATCH --environment=env.toml", "#SBATCH --gpus=1")[i % 3]
            path.write_text(f"#!/bin/bash\n#SBATCH --nodes={i % 8 + 1}\n{head}\n{BLOCK * (i % 12)}")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "job, uenv (budget 15x)": [tool, "job", *JOB, "--", "python", "train.py"],
            "job check, 10,000 lines": [tool, "job", "check", str(script)],
            "job check, 1,400 files": [tool, "job", "check", *map(str, scripts)],
        }
        seconds: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                seconds[label].append(elapsed(command, Path(name)))
    bare = statistics.median(seconds["python -c pass"])
    for label, found in seconds.items():
        print(f"{label:24} {statistics.median(found):6.2f} s {statistics.median(found) / bare:6.1f}x")


def elapsed(command: list[str], folder: Path) -> float:
    """Return the seconds of CPU of one run; flaws that are found are an answer too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
