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

from tests.conftest import ROOT, Cli
from tests.real.test_job_slurm import TORCH
from tests.support.containers import apptainer, image_root, laid
from tests.support.needs import skip_without
from tests.support.ordinary_user import NOBODY, give_to_ordinary_user
from tests.support.programs import program
from tests.support.slurm import Slurm, running_slurm
from uenvtool.activation.explained import COMPUTED

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
MEET = Path(__file__).with_name("meet.py")
OVERLAY = "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.99.0\n"


@dataclass
class Nodes:
    """A Slurm whose nodes have a container runtime.

    place: the directory of the user's job. image: its file. lay: the command that lays the runtime over the root.
    """

    slurm: Slurm
    place: Path
    image: Path
    lay: str

    def run(
        self,
        cli: Cli,
        system: str,
        *options: str,
        env: dict[str, str],
        words: list[str],
        program: str = SHOW,
        ranks: int = 4,
    ) -> tuple[int, str]:
        """Write a job of a system, submit it as an ordinary user, and return its exit code and output.

        program: the Python code of the job. ranks: the ranks on each of the two nodes.
        """
        show = self.place / "show it.py"
        show.write_text(program)
        for old in (*self.place.rglob("rank-*.json"), *self.place.rglob("slurm-*.log")):
            old.unlink()
        account = ("-A", "a") if system != "isambard-ai" else ()
        words = ["--nodes", "2", "--time", "9", *options, "--", "python3", str(show), *words]
        answer = cli("job", "-s", system, *account, *words)
        assert answer.code == 0, answer.stderr
        text = re.sub(r"#SBATCH --(partition|constraint|network|mem|mem-per-gpu|account)\b.*\n", "", answer.stdout)
        text = re.sub(r"--gpus-per-node=\d+", "--gpus-per-node=4", text)
        text = re.sub(r"--ntasks-per-node=\d+", f"--ntasks-per-node={ranks}", text)
        job = self.place / "job.sh"
        job.write_text(text)
        give_to_ordinary_user(self.place)
        path = f"{self.place}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        here = {"PATH": path, "HOME": str(self.place), "USER": "nobody", **MODULE, **env}
        sent = self.slurm.submit(str(job), cwd=self.place, env=here, timeout=180)
        logs = "\n".join(file.read_text(errors="replace") for file in self.place.rglob("slurm-*.log"))
        return sent.returncode, sent.stderr + logs

    def in_container(self, line: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a line of bash as an ordinary user in the user's directory, where the runtime is installed.

        `exit` keeps bash from replacing itself by Apptainer, which finds its files through its parent process.
        """
        as_user = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
        run = f'{self.lay} && cd "{self.place}" && {as_user} bash -c "$0"'
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", run, f"{line}\nexit $?"]
        own = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.place), **env}
        return subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=120)

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
        torch = torch_site()
        reach_torch = f"mkdir /media/torch && mount --bind {torch} /media/torch\n" if torch else ""
        lay = laid(tree, top, reach_torch)
        with running_slurm(top / "slurm", lay=lay) as slurm:
            own = replace(slurm, user=NOBODY)
            image = place / "image.sif"
            give_to_ordinary_user(place)
            nodes = Nodes(own, place, image, lay)
            reach = f"mkdir /media/root && mount --bind {root} /media/root"
            made = replace(nodes, lay=f"{lay} && {reach}").in_container(f"apptainer build {image} /media/root", {})
            assert made.returncode == 0, made.stderr
            yield nodes


def torch_site() -> str:
    """Return the package directory of a torch for /usr/bin/python3, which the image contains, or an empty string."""
    python = os.environ.get(TORCH, "")
    versions = "import sys, os; print(sys.version_info[:2])"
    site = f"{versions}; import torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"
    if not python or not Path(python).exists():
        return ""
    found, image = (
        subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
        for program, code in ((python, site), ("/usr/bin/python3", versions))
    )
    return found[1] if found[0] == image[0] else ""


def explained(cli: Cli, system: str, runtime: str) -> dict[str, str]:
    """Return the variables that `explain` names for a system, with their values, except computed values."""
    answer = cli("explain", "--system", system, "--runtime", runtime, "--json")
    values = {row["name"]: row["value"] for row in json.loads(answer.stdout)}
    return {name: value for name, value in values.items() if value not in COMPUTED.values()}


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
    known = explained(cli, system, "apptainer" if system != "lumi" else "singularity")
    if "LD_LIBRARY_PATH" in known:
        known["LD_LIBRARY_PATH"] += ":/.singularity.d/libs"  # Apptainer appends its directory
    assert len(known) > 5
    assert [{name: rank["env"].get(name, "removed") for name in known} for rank in ranks] == [known] * len(ranks)
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


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_two_ranks_meet_by_gloo_in_apptainer(nodes: Nodes, cli: Cli, launcher: str) -> None:
    if not torch_site():
        skip_without(
            "a torch for /usr/bin/python3", f"/usr/bin/python3 -m venv V; V/bin/pip install torch; {TORCH}=V/bin/python"
        )
    env, (_, _, *image) = site(nodes, "olivia")
    more = ["--launcher", launcher, "--gpus", "1", "--mount", "/media/torch", "--env", "PYTHONPATH=/media/torch"]

    code, output = nodes.run(
        cli, "olivia", *image, *more, env=env, words=["--torch"], program=MEET.read_text(), ranks=1
    )

    rows = map(json.loads, re.findall(r"\{.*\}", output))
    assert code == 0, output
    assert sorted((row["RANK"], row["SLURMD_NODENAME"], row["sum"]) for row in rows) == [
        ("0", "n1", "1"),
        ("1", "n2", "1"),
    ]


PACK = """\
import pathlib, sys
from uenvtool.image.pack import pack
from uenvtool.image.programs import find_programs
from uenvtool.image.tree import Tree, walk
here = pathlib.Path.cwd()
tree = Tree(folder=here / "files", entries=walk(here / "files"))
print(pack(find_programs(), tree, here / "packed.squashfs", here).compression)
"""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same directories", "other directories"])
def test_the_line_of_the_hint_packs_in_a_container(nodes: Nodes, elsewhere: bool) -> None:
    (nodes.place / "files").mkdir(exist_ok=True)
    (nodes.place / "files" / "one").write_text("two")
    (nodes.place / "pack.py").write_text(PACK)
    (nodes.place / "packed.squashfs").unlink(missing_ok=True)
    env = {"APPTAINER_BIND": f"{ROOT}/uenvtool:/code/uenvtool", "APPTAINERENV_PYTHONPATH": "/code"}
    if elsewhere:  # like a host of another distribution
        env["LD_LIBRARY_PATH"] = str(nodes.place / "libraries-of-host")
        copy = r"mkdir -p $LD_LIBRARY_PATH; cp $(ldd /usr/bin/mksquashfs | grep -oE '/\S*/lib[lz]\S*') $LD_LIBRARY_PATH"
        subprocess.run(["bash", "-c", copy], env={**os.environ, **env}, check=True)
    give_to_ordinary_user(nodes.place)

    without = nodes.in_container(f"apptainer -s exec {nodes.image} python3 pack.py", env)
    line = re.search(r"`(apptainer exec .*)`", without.stderr)
    assert line, without.stderr
    ran = nodes.in_container(line[1].replace("IMAGE COMMAND", f"{nodes.image} python3 pack.py"), env)

    assert ran.stdout == "zstd\n", ran.stderr
    assert (nodes.place / "packed.squashfs").read_bytes()[:4] == b"hsqs"
