"""Compares `check` with shellcheck, on a script of 10,000 lines and on 1,400 files."""

from __future__ import annotations

from collections.abc import Iterator

from side_by_side import Comparison, Place, Way, growth

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


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield the comparisons. Exit code 1 (problems found) counts as success."""
    lines, count = (1_000, 100) if place.small else (10_000, 1_400)
    script = place.folder / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --uenv=pytorch/v2.6.0:v1\n" + BLOCK * (lines // BLOCK.count("\n")))
    check = Way("uenvtool check", place.tool("check", script, fine=(0, 1)))
    theirs = [Way("shellcheck", place.run("shellcheck", script, fine=(0, 1)))]
    ways = theirs if place.has("shellcheck", "apt-get install shellcheck") else []
    yield Comparison(f"Checking a script of {lines} lines", [*ways, check], "shellcheck searches for other problems.")
    heads = ("#SBATCH --uenv=pytorch/v2.6.0:v1", "#SBATCH --environment=env.toml", "#SBATCH --gpus=1")
    scripts = [place.folder / f"job{i}.sh" for i in range(count)]
    for i, path in enumerate(scripts):
        path.write_text(f"#!/bin/bash\n#SBATCH --nodes={i % 8 + 1}\n{heads[i % 3]}\n{BLOCK * (i % 12)}")
    all_ = Way("uenvtool check", place.tool("check", *scripts, fine=(0, 1)))
    theirs = [Way("shellcheck", place.run("shellcheck", *scripts, fine=(0, 1)))] if ways else []
    yield Comparison(f"Checking {count} scripts in one run", [*theirs, all_])
    ways = []
    for size in (100, 1_000) if place.small else (100, 1_000, 3_000, 10_000, 30_000):
        path = place.folder / f"lines{size}.sh"
        path.write_text("#!/bin/bash\n#SBATCH --uenv=pytorch/v2.6.0:v1\n" + BLOCK * (size // BLOCK.count("\n")))
        ways.append(Way(f"{size} lines", place.tool("check", path, fine=(0, 1))))
    yield Comparison("Checking a script, by number of lines", ways, remarks=growth)
