"""Test the scripts for container runtimes with the real programs, in a real Slurm, as an ordinary user."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.containers import apptainer, image_root, laid
from tests.support.ordinary_user import NOBODY, give_to_ordinary_user
from tests.support.programs import program
from tests.support.slurm import Slurm, running_slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
RANKS = {"olivia": 8, "lumi": 8, "isambard-ai": 8}
WORDS = ["a b", "$HOME", 'say "x"', "it's", "", "*"]
SHOW = """\
import json, os, sys, socket
rank = os.environ["RANK"]
here = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "python": sys.executable}
here["seen"] = {path: sorted(os.listdir(path)) if os.path.isdir(path) else None for path in sys.argv[1].split(":")}
with open(f"rank-{rank}.json", "w") as file:
    json.dump(here, file)
sys.exit(7 if rank == "3" and os.environ.get("FAILS") else 0)
"""
MODULE = {"BASH_FUNC_module%%": "() { :; }"}
"""The command `module` for scripts, as an exported function of bash."""
OVERLAY = "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.99.0\n"


@dataclass
class Nodes:
    """A Slurm whose nodes have a container runtime. place: the directory of the user's job. image: its file."""

    slurm: Slurm
    place: Path
    image: Path

    def run(self, cli: Cli, system: str, *options: str, env: dict[str, str], words: list[str]) -> tuple[int, str]:
        """Write a job of a system, submit it as an ordinary user, and return its exit code and output."""
        show = self.place / "show it.py"
        show.write_text(SHOW)
        for old in self.place.rglob("rank-*.json"):
            old.unlink()
        account = ("-A", "a") if system != "isambard-ai" else ()
        words = ["--nodes", "2", "--time", "9", *options, "--", "python3", str(show), *words]
        answer = cli("job", "-s", system, *account, *words)
        assert answer.code == 0, answer.stderr
        text = re.sub(r"#SBATCH --(partition|constraint|network|mem|mem-per-gpu|account)\b.*\n", "", answer.stdout)
        text = re.sub(r"--gpus-per-node=\d+", "--gpus-per-node=4", text)
        text = re.sub(r"--ntasks-per-node=\d+", "--ntasks-per-node=4", text)
        job = self.place / "job.sh"
        job.write_text(text)
        give_to_ordinary_user(self.place)
        path = f"{self.place}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        here = {"PATH": path, "HOME": str(self.place), "USER": "nobody", **MODULE, **env}
        sent = self.slurm.submit(str(job), cwd=self.place, env=here, timeout=180)
        logs = "\n".join(file.read_text(errors="replace") for file in self.place.rglob("slurm-*.log"))
        return sent.returncode, sent.stderr + logs

    def ranks(self) -> list[dict[str, object]]:
        """Return what each rank wrote, by rank."""
        files = sorted(self.place.rglob("rank-*.json"), key=lambda path: int(path.stem.split("-")[1]))
        return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    tree, root = apptainer(), image_root()
    with tempfile.TemporaryDirectory(prefix="uenvtool-test-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "slurm").mkdir(mode=0o755)
        place = top / "job"
        program(place / "bin" / "nvidia-smi", "exec sleep 100")
        lay = laid(tree, top)
        with running_slurm(top / "slurm", lay=lay) as slurm:
            own = replace(slurm, user=NOBODY)
            image = place / "image.sif"
            give_to_ordinary_user(place)
            as_user = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
            reach = f"mkdir /media/root && mount --bind {root} /media/root"
            build = f"{lay} && {reach} && {as_user} apptainer build {image} /media/root"
            words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", build]
            env = {**os.environ, "HOME": str(place)}
            made = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
            yield Nodes(own, place, image)


def site(nodes: Nodes, system: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a site's modules, and the options for its job."""
    libraries = nodes.place / "libraries"
    for name in ("lib", "include"):
        (libraries / name).mkdir(parents=True, exist_ok=True)
        (libraries / name / f"of-{name}").touch()
    variables = ("EBROOTLIBFABRIC", "EBROOTNCCL", "EBROOTAWSMINOFIMINNCCL")
    env = dict.fromkeys(variables, str(libraries)) if system == "olivia" else {}
    if system == "lumi":
        env = {"SINGULARITY_BIND": f"{libraries}:/of-the-module"}
    return env, ["--launcher", "srun", "--image", str(nodes.image)]


@pytest.mark.parametrize("system", RANKS)
def test_the_script_of_a_site_runs_in_apptainer(nodes: Nodes, cli: Cli, system: str) -> None:
    env, options = site(nodes, system)
    runtime = ["--runtime", "apptainer"] if system == "isambard-ai" else []
    data, sibling, folder = (nodes.place.parent / name for name in ("data", "sibling", "a b"))
    for path in (data, sibling, folder):
        path.mkdir(exist_ok=True)
        (path / "there").touch()
        give_to_ordinary_user(path)
    more = ["--mount", str(data), "--mount", f"{sibling}:/elsewhere", "--workdir", str(folder), "--env", "TOKEN"]
    looked = ":".join(map(str, (data, "/elsewhere", "/opt/nccl/lib", "/of-the-module")))

    code, output = nodes.run(
        cli, system, *runtime, *options, *more, env={**env, "TOKEN": 's "q $x', "FAILS": "1"}, words=[looked, *WORDS]
    )

    assert code == 7, output
    ranks = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(RANKS[system])]
    assert all(rank["argv"] == [looked, *WORDS] for rank in ranks)
    assert {rank["cwd"] for rank in ranks} == {str(folder)}
    assert {rank["env"]["TOKEN"] for rank in ranks} == {'s "q $x'}
    seen = ranks[0]["seen"]
    assert (seen[str(data)], seen["/elsewhere"]) == (["there"], ["there"])
    assert seen["/opt/nccl/lib"] == (["of-lib"] if system == "olivia" else None)
    assert (seen["/of-the-module"] is not None) == (system == "lumi")
    script = (nodes.place / "job.sh").read_text()
    exported = dict(re.findall(r'^export (\w+)="\$\{\w+-([^"$]*)\}"', script, re.MULTILINE))
    assert len(exported) > 5
    assert {name: ranks[0]["env"].get(name) for name in exported} == exported
    assert not ranks[0]["env"].get("CPATH", "").endswith(":")
    assert "is not writable" not in output


def test_an_unset_variable_ends_the_job(nodes: Nodes, cli: Cli) -> None:
    env, options = site(nodes, "olivia")

    code, output = nodes.run(cli, "olivia", *options, "--env", "TOKEN", env=env, words=["/elsewhere"])

    assert code != 0
    assert "TOKEN: export it before you start the job" in output
    assert nodes.ranks() == []


@pytest.mark.parametrize("kind", ["unpacked", "packed", "staged"])
@pytest.mark.parametrize("system", ["olivia", "lumi"])
def test_an_overlay_is_first_in_apptainer(nodes: Nodes, cli: Cli, system: str, kind: str) -> None:
    env, options = site(nodes, system)
    overlay = made_overlay(nodes, cli, kind, system)

    staged = ["--stage"] if kind == "staged" else []
    code, output = nodes.run(cli, system, *options, "--venv", str(overlay), *staged, env=env, words=["/elsewhere"])

    ranks = nodes.ranks()
    assert code == 0, output
    programs = str(overlay / "bin") if kind == "unpacked" else "/user-tools/bin"
    assert {rank["env"]["PATH"].partition(":")[0] for rank in ranks} == {programs}  # type: ignore[attr-defined]
    assert {rank["env"]["OF_OVERLAY"] for rank in ranks} == {"yes"}  # type: ignore[index]
    assert len(ranks) == RANKS[system]
    assert system == "lumi" or "is not writable" not in output
    assert not [path for path in Path("/dev/shm").glob("*.squashfs") if path.owner() == "nobody"]


def made_overlay(nodes: Nodes, cli: Cli, kind: str, system: str) -> Path:
    """Return an overlay whose python3 sets a variable and starts the image's."""
    from tests.job.stand_ins import packed_overlay

    work = nodes.place / "overlay"
    shutil.rmtree(work, ignore_errors=True)
    target = work / "image" if kind != "unpacked" else work
    program(target / "bin" / "python3", 'export OF_OVERLAY=yes\nexec /usr/bin/python3 "$@"')
    (target / "bin" / "python").symlink_to("python3")
    (target / "pyvenv.cfg").write_text(OVERLAY.replace("/usr/bin", "/opt/conda/bin"))
    if kind == "unpacked":
        return work
    packed_overlay(work, {"in_container": "yes"})
    return work / "mine.squashfs"
