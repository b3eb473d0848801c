"""Test jobs of `uenvtool job` in a real Slurm with four nodes, on two nodes with four ranks each."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.needs import skip_without
from tests.support.programs import program
from tests.support.samples import sampled
from tests.support.slurm import Slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
MEET = Path(__file__).parent / "meet.py"
TORCH = "UENVTOOL_TEST_TORCH_PYTHON"
RANKS = 8


class Site:
    """A system whose jobs the test's Slurm accepts: clariden, with `env` instead of Apptainer."""

    def __init__(self, slurm: Slurm, cli: Cli, place: Path) -> None:
        self.slurm, self.cli, self.place = slurm, cli, place
        self.place.chmod(0o755)

    def job(self, *words: str, options: tuple[str, ...] = ()) -> Path:
        """Return a job without the options of the uenv plugin, which the test's sbatch does not have."""
        answer = self.cli(
            "job", "--system", "clariden", "--account", "a", "--image", "mine/v1.0:v1", "--time", "30",
            "-o", "job.sh", *options, "--", *words,
        )  # fmt: skip
        assert answer.code == 0, answer.stderr
        path = self.place / "job.sh"
        path.write_text(re.sub(r"#SBATCH --(uenv|view)=.*\n", "", path.read_text()))
        return path

    def run(self, path: Path, *more: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Submit a job, wait for its end, and return the exit code and the output of its ranks."""
        sent = self.slurm.submit(*more, str(path), cwd=self.place, env=env, timeout=1200)
        return sent.returncode, sent.stderr + self.written()

    def written(self) -> str:
        files = sorted(self.place.glob("slurm-*.log"))
        return "\n".join(file.read_text(errors="replace") for file in files)


@pytest.fixture
def site(slurm: Slurm, cli: Cli, place: Path) -> Site:
    return Site(slurm, cli, place)


def said(output: str) -> list[dict[str, str]]:
    """Return the output of the ranks without the labels of `srun -l`."""
    lines = [line[line.index("{") :] for line in output.splitlines() if "{" in line and '"RANK"' in line]
    return sorted((json.loads(line) for line in lines), key=lambda env: int(env["RANK"]))


def test_the_ranks_of_srun_meet(site: Site) -> None:
    code, output = site.run(site.job(sys.executable, str(MEET)))

    ranks = said(output)
    assert code == 0, output
    assert [env["RANK"] for env in ranks] == [str(i) for i in range(RANKS)]
    assert [env["LOCAL_RANK"] for env in ranks] == [str(i % 4) for i in range(RANKS)]
    assert [env["SLURMD_NODENAME"] for env in ranks] == ["n1"] * 4 + ["n2"] * 4
    assert {env["WORLD_SIZE"] for env in ranks} == {str(RANKS)}
    assert {env["sum"] for env in ranks} == {str(sum(range(RANKS)))}  # each heard of all others
    assert {env["NCCL_NET"] for env in ranks} == {"AWS Libfabric"}


def on_frontier(site: Site, cli: Cli, *words: str) -> tuple[int, str]:
    """Run a job for two nodes of Frontier without unsupported options, and test that the nodes' disks are empty."""
    (site.place / "job.sh").write_text(of_frontier(cli, *words))
    code, output = site.run(site.place / "job.sh", env={"USER": "root"})
    assert left_on_disks(site) == ""
    return code, output


def of_frontier(cli: Cli, *words: str) -> str:
    text = cli("job", "-s", "frontier", "-A", "a", "--nodes", "2", "--time", "9", *words).stdout
    text = re.sub(r"#SBATCH --(partition|constraint|network|gpu-bind)=.*\n|module .*\n", "", text)
    return text.replace("--ntasks-per-node=8", "--ntasks-per-node=4")


def left_on_disks(site: Site) -> str:
    (site.place / "left.sh").write_text("#!/bin/sh\n#SBATCH -N 4 -o left.log\nsrun ls -A /mnt/bb/root\n")
    site.run(site.place / "left.sh")
    return (site.place / "left.log").read_text()


UNPACK = 'echo "unpacked on $SLURMD_NODENAME in $(dirname "$(dirname "$0")")"'


def archive_of(place: Path, programs: dict[str, str]) -> None:
    """Write env.tar.gz, which is an environment with these programs."""
    for name, text in programs.items():
        program(place / "env" / "bin" / name, text)
    with tarfile.open(place / "env.tar.gz", "w:gz") as archive:
        archive.add(place / "env" / "bin", "bin")


def test_an_archive_of_an_environment_is_unpacked_on_each_nodes_disk(site: Site, cli: Cli, place: Path) -> None:
    archive_of(place, {"python": f'exec "{sys.executable}" "$@"', "conda-unpack": UNPACK})
    look = 'import shutil; print("ran", shutil.which("python"))'

    code, output = on_frontier(site, cli, "--image", "env.tar.gz", "--", "python", "-c", look)

    folder = re.search(r"unpacked on n1 in (/mnt/bb/root/environment-\d+)", output)
    assert code == 0, output
    assert folder, output
    assert f"unpacked on n2 in {folder[1]}\n" in output
    assert output.count(f"ran {folder[1]}/bin/python") == RANKS


STAGED = ("-s", "clariden", "-A", "a", "--runtime", "ce", "--image", "image.sqsh", "--stage", "--time", "9")


def test_nothing_stays_on_the_nodes_however_a_job_ends(site: Site, cli: Cli, place: Path) -> None:
    archive_of(place, {"conda-unpack": ""})
    (place / "image.sqsh").write_text("an image")
    run = 'ls -d /mnt/bb/root/environment-* /dev/shm/$SLURM_JOB_ID-*; touch "$LOGS/runs"; sleep 300'
    sent = of_frontier(cli, "--image", "env.tar.gz", "--", "bash", "-c", run)
    staged = cli("job", *STAGED, "--", "bash", "-c", run).stdout.replace("--environment=./job.toml", "")
    jobs = {
        "cancelled": sent,
        "limit": sent.replace("--time=9", "--time=1"),
        "failed": sent.replace("./env.tar.gz", "./image.sqsh"),
        "staged": staged,
    }
    numbers = {}
    for name, text in jobs.items():
        (place / f"{name}.sh").write_text(text)
        words = ("sbatch", "--parsable", f"--job-name={name}", f"{name}.sh")
        numbers[name] = site.slurm.run(*words, cwd=place, env={"USER": "root"}).stdout.strip()
    for name in ("cancelled", "staged", "limit"):
        until(lambda name=name: bool(list(place.glob(f"logs/{name}-*/runs"))), site)  # type: ignore[misc]
        if name != "limit":
            site.slurm.run("scancel", numbers[name])

    codes = {name: site.slurm.exit_code(number) for name, number in numbers.items()}

    logs = {name: (place / f"slurm-{name}-{number}.log").read_text() for name, number in numbers.items()}
    assert codes == {"cancelled": 15, "limit": 15, "failed": 2, "staged": 15}, logs
    for name in ("cancelled", "limit"):
        assert f"/mnt/bb/root/environment-{numbers[name]}\n" in logs[name]
    assert f"/dev/shm/{numbers['staged']}-0.sqsh\n" in logs["staged"]
    assert left_on_disks(site) == ""
    assert not list(Path("/dev/shm").glob(f"{numbers['staged']}-*"))
    assert "expired" not in "".join(logs.values())


ALL_REDUCE = """#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "# /opt/nccl-tests/all_reduce_perf -b 8 -e 4G -f 2 -g 1"
for rank in 0 1 2 3 4 5 6 7; do
  echo "#  Rank  $rank Group  0 Pid  10$rank on  n$((rank / 4 + 1)) device  $((rank % 4)) [0x01] NVIDIA GH200"
done
echo "   134217728    33554432     float     sum      -1   1916.3   70.04  122.57  {wrong}   1916.3   70.04  122.57  0"
"""


@pytest.mark.parametrize(("wrong", "code", "said"), [(0, 0, "good"), (17, 1, "broken: NCCL corrupts data")])
def test_a_test_of_the_network_ends_with_a_verdict(
    site: Site, cli: Cli, place: Path, wrong: int, code: int, said: str
) -> None:
    folder = program(place / "bin" / "all_reduce_perf", ALL_REDUCE.format(wrong=wrong)).parent
    words = ("job", "-s", "clariden", "-A", "a", "--image", "mine/v1.0:v1", "--nodes", "2", "--time", "9")
    script = re.sub(r"#SBATCH --(uenv|view)=.*\n", "", cli(*words, "--nccl-test").stdout)
    (place / "job.sh").write_text(script)

    path = f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin"
    ended, output = site.run(place / "job.sh", env={"PATH": path})

    assert ended == code, output
    assert said in output


@pytest.mark.nightly
def test_two_jobs_at_once_do_not_meet(site: Site) -> None:
    path = site.job(sys.executable, str(MEET))
    jobs = [site.slurm.run("sbatch", "--parsable", str(path), cwd=site.place).stdout.strip() for _ in range(2)]

    wait_for(site.slurm, jobs)

    for number in jobs:
        ranks = said((site.place / f"slurm-meet-{number}.log").read_text())
        assert len(ranks) == RANKS
        assert {env["sum"] for env in ranks} == {str(sum(range(RANKS)))}
        assert {env["MASTER_PORT"] for env in ranks} == {str(10000 + int(number) % 20000)}


def test_a_rank_that_fails_fails_the_job_with_its_exit_code(site: Site) -> None:
    code, output = site.run(site.job("bash", "-c", '[ "$RANK" != 5 ] || exit 7'))

    assert code == 7, output


HOSTILE = [
    *("a b", "$(touch hacked)", "`id`", "it's", 'say "x"', "-n", "--", "\\", "a\nb", "*", "é", "", ";", "${HOME}", "#")
]
CHARACTERS = " \t\n\"'`$(){}[]<>|&;*?!#~\\-=%@:,./0aZé\u2028\U0001f600"
CHANCE = random.Random(15)
WORDS = {
    "srun": HOSTILE,
    "torchrun": HOSTILE,
    "srun, any words": ["".join(CHANCE.choices(CHARACTERS, k=CHANCE.randrange(12))) for _ in range(300)],
}


@pytest.mark.parametrize("case", sampled(WORDS))
def test_hostile_words_reach_the_program_as_they_are(site: Site, place: Path, case: str) -> None:
    show, launcher = place / "show it.py", case.partition(",")[0]
    show.write_text("import json, os, sys\nopen('argv-' + os.environ['RANK'], 'w').write(json.dumps(sys.argv[1:]))\n")
    python = torch_python() if launcher == "torchrun" else sys.executable
    options = ("--nodes", "1", "--launcher", launcher, "--name", "a 'b\" $(c) \\")

    path = site.job(python, str(show), *WORDS[case], options=options)
    code, output = site.run(path, env={"PATH": f"{Path(python).parent}:/usr/bin:/bin"})

    assert code == 0, output
    assert [json.loads((place / f"argv-{rank}").read_text()) == WORDS[case] for rank in range(4)] == [True] * 4
    assert not (place / "hacked").exists()


def test_submit_prints_the_number_of_the_job(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(site.slurm.conf))
    system = site.place / "systems" / "mine.yaml"
    system.parent.mkdir()
    system.write_text("extends: olivia\nscheduler: {name: slurm, defaults: {partition: all, mem: '0'}}\n")
    image = site.place / "image.sif"
    image.touch()

    answer = site.cli(
        "job", "-s", "mine", "-A", "a", "--image", str(image), "-t", "5", "-o", "j.sh", "--submit", "--", "true",
    )  # fmt: skip

    assert answer.code == 0, answer.stderr
    number = answer.stdout.strip()
    assert f"JobId={number} " in site.slurm.run("scontrol", "show", "job", number).stdout
    wait_for(site.slurm, [number])


def torch_python() -> str:
    named = os.environ.get(TORCH)
    if not named or not Path(named).exists():
        skip_without(
            "a Python with a torch of 2.6 or newer", f"python -m venv V; V/bin/pip install torch; {TORCH}=V/bin/python"
        )
    return named


def wait_for(slurm: Slurm, jobs: list[str]) -> None:
    for _ in range(400):
        if not slurm.run("squeue", "--noheader", "--jobs", ",".join(jobs)).stdout.strip():
            return
        time.sleep(0.2)
    raise AssertionError(f"{shlex.join(jobs)} did not end")


def until(ready: Callable[[], bool], site: Site) -> None:
    for _ in range(1500):  # a scheduler with other jobs takes minutes to look at one that was queued again
        if ready():
            return
        time.sleep(0.2)
    raise AssertionError(site.written() + site.slurm.run("scontrol", "show", "job").stdout)


STEPS = """\
import os, signal, sys, time
from pathlib import Path

rank, done = os.environ["RANK"], Path("steps-" + os.environ["RANK"])
stop = []
signal.signal(signal.SIGUSR1, lambda number, frame: stop.append(number))
Path(f"run-{rank}-{os.environ.get('SLURM_RESTART_COUNT', 0)}").touch()
for step in range(int(done.read_text()) if done.exists() else 0, 6):  # two steps a run
    while not stop and step % 2 == 0 and step and not Path(f"go-{step}").exists():
        time.sleep(0.1)
    if stop:
        sys.exit(0)
    done.write_text(str(step + 1))
"""


def runs(place: Path) -> int:
    return len(list(place.glob("run-0-*")))


def started(site: Site, number: str) -> int:
    """Return the number of runs of a job, after starting a requeued job without Slurm's delay of two minutes."""
    site.slurm.run("scontrol", "update", f"jobid={number}", "StartTime=now")
    return runs(site.place)


def steps(place: Path) -> list[str]:
    return [path.read_text() for path in sorted(place.glob("steps-*"))]


@pytest.mark.parametrize("by", sampled(["srun by scancel", "torchrun by scancel", "srun by its limit"]))
def test_a_training_that_is_told_of_its_end_is_done_after_three_runs(site: Site, place: Path, by: str) -> None:
    """With "by its limit", Slurm itself sends the signal, which can take two minutes."""
    launcher = by.partition(" ")[0]
    (place / "train.py").write_text(STEPS)
    python = torch_python() if launcher == "torchrun" else sys.executable
    path = site.job(python, "train.py", options=("--requeue", "--nodes", "1", "--launcher", launcher))
    env = {"PATH": f"{Path(python).parent}:/usr/bin:/bin"}
    number = site.slurm.run("sbatch", "--parsable", str(path), cwd=place, env=env).stdout.strip()

    for run, step in ((1, 2), (2, 4)):
        until(lambda run=run: started(site, number) == run, site)  # type: ignore[misc]
        until(lambda step=step: steps(place) == [str(step)] * 4, site)  # type: ignore[misc]
        if by == "srun by its limit":
            site.slurm.run("scontrol", "update", f"jobid={number}", "TimeLimit=2")
        else:
            site.slurm.run("scancel", "--batch", "--signal=USR1", number)
        restarts = f"Restarts={run}"
        until(lambda restarts=restarts: restarts in site.slurm.run("scontrol", "show", "job", number).stdout, site)  # type: ignore[misc]
        site.slurm.run("scontrol", "update", f"jobid={number}", "TimeLimit=30")
        (place / f"go-{step}").touch()
    until(lambda: started(site, number) == 3, site)
    wait_for(site.slurm, [number])

    assert steps(place) == ["6"] * 4
    assert runs(place) == 3


REFUSED = {
    "dos-line-ends": ("#!/bin/bash\r\n#SBATCH --nodes=2\r\nhostname\r\n", "DOS line breaks"),
    "typographic": ("#!/bin/bash\n#SBATCH \u2013nodes=2\nhostname\n", "Invalid directive"),
    "no-break-space": ("#!/bin/bash\n#SBATCH --nodes=2\u00a0\nhostname\n", "is not a valid node count"),
    "shebang": ("\ufeff#!/bin/bash\n#SBATCH --nodes=2\nhostname\n", "This does not look like a batch script"),
}


@pytest.mark.parametrize("rule", sampled(REFUSED))
def test_a_script_of_a_page_or_of_windows_is_refused_and_taken_when_it_is_mended(
    slurm: Slurm, cli: Cli, place: Path, rule: str
) -> None:
    text, message = REFUSED[rule]
    (place / "job.sh").write_bytes(text.encode())

    before = slurm.run("sbatch", "--test-only", "job.sh", cwd=place)
    found = cli("check", "--fix", "job.sh")
    after = slurm.run("sbatch", "--test-only", "job.sh", cwd=place)

    assert before.returncode != 0
    assert message in before.stderr
    assert found.code == 0, found.stdout
    assert after.returncode == 0, after.stderr


def test_an_array_fills_in_its_number_in_each_job(site: Site) -> None:
    tell = "import os, sys; print('number', sys.argv[1], os.environ['LOGS'])"
    options = ("--array", "0-3%2", "--nodes", "1", "--gpus", "1", "--name", "prep")
    path = site.job(sys.executable, "-c", tell, "--shard={array}", options=options)

    code, output = site.run(path)

    numbers = sorted(re.findall(r"number --shard=(\d) logs/prep-\d+_(\d)\n", output))
    assert code == 0, output
    assert numbers == [(str(number), str(number)) for number in range(4)]
    assert len(list(site.place.glob("slurm-prep-*_?.log"))) == 4


def test_a_server_starts_once_and_a_script_with_one_once_per_node(site: Site) -> None:
    folder = program(site.place / "bin" / "vllm", 'echo "serving $* on $SLURMD_NODENAME"').parent
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    (site.place / "serve.sh").write_text("vllm serve M\n")
    refused = site.cli("job", "-s", "clariden", "-A", "a", "--image", "mine/v1.0:v1", "--", "vllm", "serve", "M")
    assert (refused.code, "--nodes 1 --launcher none" in refused.stderr) == (2, True)

    code, output = site.run(site.job("vllm", "serve", "M", options=("--nodes", "1", "--launcher", "none")), env=path)
    assert (code, output.count("serving serve M on")) == (0, 1), output
    code, output = site.run(site.job("bash", "serve.sh", options=("--name", "several", "--force")), env=path)
    assert (code, output.count("serving serve M on n1\n"), output.count("serving serve M on n2\n")) == (0, 2, 1), output


def test_a_job_without_gpus_has_all_cores_and_no_gpu(site: Site, cli: Cli) -> None:
    system = (
        "extends: isambard-ai\njobs:\n  partitions: {all: {gpus: 0, source: here}}\n  cpu: {cores: 288, source: here}\n"
    )
    (site.place / "systems").mkdir()
    (site.place / "systems" / "cpus.yaml").write_text(system)
    tell = (
        "import os; print('cores', os.environ['SLURM_CPUS_PER_TASK'], 'GPUs', os.environ.get('CUDA_VISIBLE_DEVICES'))"
    )
    words = ("job", "-s", "cpus", "--runtime", "modules", "--gpus", "0", "--time", "9", "-o", "job.sh")
    for more, cores, count in (((), 288, 1), (("--option", "--ntasks-per-node=4"), 72, 4)):
        for log in site.place.glob("slurm-*.log"):
            log.unlink()
        written = cli(*words, "--force", *more, "--", sys.executable, "-c", tell)
        assert written.code == 0, written.stderr
        text = (site.place / "job.sh").read_text()
        (site.place / "job.sh").write_text(re.sub(r"(?m)^module .*\n", "", text))

        code, output = site.run(site.place / "job.sh")

        assert (code, output.count(f"cores {cores} GPUs None")) == (0, count), output


def test_another_tools_environment_comes_before_its_base_and_must_exist(site: Site, place: Path) -> None:
    venv = place / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", venv], check=True)
    (package,) = venv.glob("lib/python3*/site-packages")
    for folder, name in ((package, "venv"), (place / "base", "base"), (place / "src", "src")):
        folder.mkdir(exist_ok=True)
        (folder / "both.py").write_text(f"name = {name!r}\n")
    (place / "base" / "inbase.py").write_text("name = 'base'\n")
    config = venv / "pyvenv.cfg"
    real = config.read_text()
    config.write_text(re.sub("home = .*", "home = /user-environment/env/default/bin", real))
    code = "import both, inbase; print('found', both.name, inbase.name)"
    job = site.job("python", "-c", code, options=("--venv", "mine"))
    config.write_text(real)

    status, output = site.run(job, env={"PYTHONPATH": str(place / "base")})
    venv.rename(place / "moved")
    for log in place.glob("slurm-*.log"):
        log.unlink()
    missing, told = site.run(job, env={"PYTHONPATH": str(place / "base")})

    assert status == 0, output
    assert output.count("found venv base\n") == RANKS
    assert missing == 1
    assert f"overlay {venv} not found: " in told
    assert "found" not in told.replace("not found", "")
