"""Test the lines of container runtimes: mounts, options that appear once, refused paths, EDFs and pods.

`tests/real/test_runtimes.py` runs these lines with the real programs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import Cli, Write
from tests.support.needs import skip_without
from tests.support.peers import SHARED
from tests.support.project import ROOT
from tests.support.toml import loads
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.system import load_system

GOLDENS = ROOT / "tests" / "goldens" / "job"
CONTAINERS = [
    (system, runtime)
    for system in sorted(concrete_systems())
    for runtime in load_system(system).runtimes
    if load_runtime(runtime).job.step
]
"""Each system with each of its runtimes that starts a container in a script."""
REPEATABLE = {"--volume", "--bind", "--env", "-e"}
VENV = "home = /opt/conda/bin\ninclude-system-site-packages = true\nversion = 3.13.0\n"
TRAIN = ("--", "python", "train.py")
MODULE = Path(__file__)  # a file that exists


def words(system: str, runtime: str) -> tuple[str, ...]:
    account = ("-A", "a") if "account" in load_system(system).jobs.required else ()
    image = () if load_system(system).jobs.of(runtime).image else ("--image", "nvcr.io/a:1")
    return ("job", "-s", system, "--runtime", runtime, *account, *image)


def script(cli: Cli, *options: str) -> str:
    answer = cli(*options, *TRAIN)
    assert answer.code == 0, answer.stderr
    return answer.stdout


def mounts_of(text: str) -> list[str]:
    """The mounts of a script: the entries of its array, and those that its container command names itself."""
    array = re.search(r"^binds=\((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^  (\S+)", array[1], re.MULTILINE) if array else []
    return entries + re.findall(r"--(?:volume|bind)=([^}\s]+)", text)


def without_target(text: str) -> list[str]:
    return [mount for mount in mounts_of(text) if not re.fullmatch(r"\W*[^:]*[^:]/?[^:]*:[^:]+(:.*)?", mount)]


def options_of(text: str, system: str, runtime: str) -> list[str]:
    """The names of the options of a script's container command, with those that the system's options add."""
    adds = load_system(system).jobs.of(runtime).adds
    start = re.search(r"\\\n  ((?:apptainer|singularity|podman-hpc|shifter) .*?)bash -c", text, re.DOTALL)
    assert start, text
    own = re.findall(r"(?<![\w\"])(--?[a-z][a-z-]*)", start[1])
    return own + [option.partition("=")[0] for option in (adds.options if adds else ())]


def twice(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1 and name not in REPEATABLE]


def of_goldens() -> Iterator[tuple[str, str]]:
    for path in sorted(GOLDENS.glob("*/job.sh")):
        text = path.read_text()
        if re.search(r"^binds=", text, re.MULTILINE):
            yield path.parent.name, text


def test_each_mount_of_the_goldens_has_a_source_and_a_target() -> None:
    found = {name: without_target(text) for name, text in of_goldens()}

    assert len(found) >= 9
    assert {name: lost for name, lost in found.items() if lost} == {}
    for edf in GOLDENS.glob("*/*.toml"):
        assert all(":" in mount for mount in loads(edf.read_text())["mounts"]), edf
    assert without_target("binds=(\n  /scratch/data # --mount\n)\n") == ["/scratch/data"]


def test_no_option_of_a_container_is_twice_in_a_golden() -> None:
    found = {}
    for name, text in of_goldens():
        words = text.partition("Regenerate with: ")[2].split()
        system = words[words.index("--system") + 1]
        named = words[words.index("--runtime") + 1] if "--runtime" in words else ""
        runtime = named or next(each for each in load_system(system).runtimes if load_runtime(each).job.scheduler)
        found[name] = twice(options_of(text, system, runtime))

    assert len(found) >= 9
    assert {name: repeated for name, repeated in found.items() if repeated} == {}


@pytest.mark.parametrize(("system", "runtime"), CONTAINERS)
def test_each_runtime_gets_a_source_and_a_target_and_each_option_once(
    cli: Cli, place: Path, system: str, runtime: str
) -> None:
    (place / "venv" / "bin").mkdir(parents=True)
    (place / "venv" / "pyvenv.cfg").write_text(VENV)

    text = script(cli, *words(system, runtime), "--mount", "/scratch/data", "--mount", "/a:/b", "--venv", "venv")

    assert without_target(text) == []
    assert {"/scratch/data:/scratch/data", "/a:/b", f"{place}/venv:{place}/venv"} <= set(mounts_of(text))
    assert twice(options_of(text, system, runtime)) == []


OWN = """
extends: perlmutter
jobs:
  runtimes:
    podman-hpc:
      image: a/b:1
      mounts: [/project]
      options: [{options}]
      {adds}
"""
ADDS = 'adds: {options: ["--network=slirp4netns", --rm], source: a site}'


@pytest.mark.parametrize(
    ("options", "adds", "there"),
    [
        ("--gpu", "", ["--gpu", "--ipc", "--network", "--rm"]),
        ('"--network=bridge"', "", ["--gpu", "--ipc", "--network", "--rm"]),
        ("--mpi", ADDS, ["--gpu", "--ipc", "--mpi", "--network", "--rm"]),
        ('--mpi, "--ipc=private"', ADDS, ["--gpu", "--ipc", "--mpi", "--network", "--rm"]),
    ],
)
def test_an_option_of_the_users_own_system_replaces_ours(
    cli: Cli, write: Write, options: str, adds: str, there: list[str]
) -> None:
    write("systems/mine.yaml", OWN.format(options=options, adds=adds))

    text = script(cli, "job", "-s", "mine", "-A", "a", "--runtime", "podman-hpc")

    names = [name for name in options_of(text, "mine", "podman-hpc") if name not in (*REPEATABLE, "--workdir")]
    assert sorted(names) == there
    assert "/project:/project" in mounts_of(text)


def test_podman_hpc_gets_the_devices_of_a_rank_and_the_caches_are_named(cli: Cli) -> None:
    given = ("--env", "CUDA_VISIBLE_DEVICES=0", "--env", "OMP_NUM_THREADS=1")
    text = script(cli, *words("perlmutter", "podman-hpc"), "--launcher", "srun", "--gpu-per-rank", *given)

    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        assert text.count(f'-e "{name}"') == 1
    assert "# HOME in the container is a directory that disappears" in text
    assert "HF_HOME, TORCH_HOME and XDG_CACHE_HOME" in text
    assert "# HOME" not in script(cli, *words("perlmutter", "shifter"))


REFUSED = {
    "a space": ("/scratch/a b", "shifter does not accept a path that contains ' '"),
    "a space in the target": ("/scratch/a:/a b", "shifter does not accept a path that contains ' '"),
    "an at sign": ("/scratch/a@b", "shifter does not accept a path that contains '@'"),
    "two dots": ("/scratch/../a", "shifter does not accept a path that contains '..'"),
    "/etc": ("/data:/etc/mine", "shifter does not mount anything at /etc/mine"),
    "a path that starts like /var": ("/data:/variables", "shifter does not mount anything at /variables"),
    "/opt": ("/opt", "shifter does not mount anything at /opt"),
    "/opt/": ("/data:/opt/", "shifter does not mount anything at /opt/"),
    "Shifter's own": ("/data:/opt/udiImage/x", "shifter does not mount anything at /opt/udiImage/x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_path_that_shifter_changes_or_refuses_is_refused_with_its_reason(cli: Cli, case: str) -> None:
    mount, says = REFUSED[case]

    answer = cli(*words("perlmutter", "shifter"), "--mount", mount, *TRAIN)

    assert (answer.code, says in answer.stderr) == (2, True), answer.stderr
    assert f"--mount {mount}: " in answer.stderr
    other = cli(*words("perlmutter", "podman-hpc"), "--mount", mount, *TRAIN)
    assert other.code == 0, other.stderr
    assert cli(*words("perlmutter", "shifter"), "--mount", "/opt/mine", "--mount", "/srv/var", *TRAIN).code == 0


def test_an_overlay_in_a_path_that_shifter_refuses_is_refused(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a@b" / "bin").mkdir(parents=True)
    (place / "a@b" / "pyvenv.cfg").write_text(VENV)

    answer = cli(*words("perlmutter", "shifter"), "--venv", "a@b", *TRAIN)

    assert answer.code == 2
    assert "--venv a@b" in answer.stderr.replace(f"{place}/", "")
    assert "shifter does not accept a path that contains '@'" in answer.stderr


def test_a_path_is_mounted_only_at_its_target(cli: Cli) -> None:
    folder = MODULE.parent
    asked = (*words("perlmutter", "podman-hpc"), "--mount")

    seen = cli(*asked, str(folder), "--", "python", "t.py", f"--data={MODULE}")
    elsewhere = cli(*asked, f"{folder}:/elsewhere", "--", "python", "t.py", f"--data={MODULE}")

    assert seen.code == 0, seen.stderr
    assert elsewhere.code == 2
    assert f"{MODULE} is not mounted in the container\nhint: add --mount {folder}" in elsewhere.stderr


def test_the_file_systems_that_a_site_mounts_and_home_are_known_by_runtime(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    top = f"/{MODULE.parts[1]}"
    site = f"site_fs: {{paths: [{top}], source: a test}}"
    write(
        "systems/mine.yaml",
        f"extends: perlmutter\njobs: {{runtimes: {{shifter: {{{site}}}, podman-hpc: {{image: a}}}}}}\n",
    )
    command = ("--", "python", "t.py", str(MODULE))
    monkeypatch.setenv("HOME", "/nowhere")

    def code(*options: str) -> int:
        return cli("job", "-s", *options, "-A", "a", *command).code

    assert code("mine") == 0
    assert code("perlmutter") == 2
    monkeypatch.setenv("HOME", str(MODULE.parent))
    assert code("perlmutter") == 0
    assert code("mine", "--runtime", "podman-hpc") == 2  # its HOME is in the container


class TestEdfs:
    def test_each_edf_is_valid_for_sarus(self) -> None:
        schema = SHARED / "facts" / "edf-schema.json"
        if not schema.exists():
            skip_without("the EDF schema", "copy it to shared/facts next to the checkout")
        edfs = [*GOLDENS.glob("*/*.toml"), *(ROOT / "containers").glob("*/*.toml")]
        assert len(edfs) > 10

        for edf in edfs:
            jsonschema.validate(loads(edf.read_text()), json.loads(schema.read_text()))

    def test_each_edf_has_an_entrypoint(self) -> None:
        for edf in (*GOLDENS.glob("*/*.toml"), *(ROOT / "containers").glob("*/*.toml")):
            expected = "-alps" in loads(edf.read_text())["image"]
            assert loads(edf.read_text())["entrypoint"] is expected, edf

    @pytest.mark.parametrize("image", ["x.sqsh", "./x.sqsh", "$MINE/x.sqsh", "${MINE}/x.sqsh"])
    def test_the_path_of_the_image_is_whole(
        self, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, image: str
    ) -> None:
        (place / "x.sqsh").touch()
        monkeypatch.setenv("MINE", str(place))

        assert self.edf(cli, image)["image"] == f"{place}/x.sqsh"

    def test_a_path_with_an_unset_variable_is_refused(self, cli: Cli) -> None:
        answer = cli("job", "-s", "clariden", "-A", "a", "--runtime", "ce", "--image", "$NOT_SET/x.sqsh", *TRAIN)

        assert answer.code == 2
        assert "--image $NOT_SET/x.sqsh: a variable in it is not set" in answer.stderr

    def edf(self, cli: Cli, image: str) -> dict[str, Any]:
        answer = cli("job", "--json", "-s", "clariden", "-A", "a", "--runtime", "ce", "--image", image, *TRAIN)
        assert answer.code == 0, answer.stderr
        files = json.loads(answer.stdout)["files"]
        return loads(next(text for name, text in files.items() if name.endswith(".toml")))


PODS = """
description: Pods on RoCE.
site: Mine
fabric: roce
runtimes: [runai]
scheduler: {name: kubernetes}
tuning: [roce, cuda, pytorch, nccl]
nodes:
  a100: {target: x86_64_v3, os: ubuntu22.04, gpu: {vendor: nvidia, model: A100, arch: 80, count: 8}}
"""
RDMA = "jobs: {runtimes: {runai: {%s}}}\n"


class TestPodsOnRoce:
    @pytest.mark.parametrize(
        ("fields", "missing"),
        [
            ("", "jobs.runtimes.runai.annotations and jobs.runtimes.runai.resources are missing"),
            (RDMA % "annotations: {a/b: c}", "jobs.runtimes.runai.resources is missing"),
            (RDMA % "resources: {rdma/rdma: 1}", "jobs.runtimes.runai.annotations is missing"),
            (RDMA % "resources: {rdma/rdma: 1}, annotations: {}", ""),
        ],
    )
    def test_missing_fields_are_reported(self, cli: Cli, write: Write, fields: str, missing: str) -> None:
        write("systems/mine.yaml", PODS + fields)
        ask = ("job", "-s", "mine", "--image", "registry.example/x:1", "--pvc", "s:/s")

        valid, job = cli("validate", "systems/mine.yaml"), cli(*ask, "--nodes", "2", *TRAIN)

        assert job.code == 0, job.stderr
        assert valid.code == (2 if missing else 0)
        assert missing in valid.stderr.replace("\n", " ")
        assert missing in " ".join(job.stderr.split())
        assert "RoCE" not in cli(*ask, "--nodes", "1", *TRAIN).stderr

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ("", "add jobs.runtimes.runai.annotations and resources to the file of the system mine"),
            (RDMA % "annotations: {a/b: \"$(id) 'x'\"}, resources: {r: 1}", "submit with --annotation '"),
        ],
    )
    def test_the_guard_prints_the_whole_sentence(self, cli: Cli, write: Write, fields: str, says: str) -> None:
        write("systems/mine.yaml", PODS + fields)
        text = script(cli, "job", "-s", "mine", "--image", "registry.example/x:1", "--nodes", "2")

        guard = text[text.index("if [") : text.index("set -e")].replace("/sys/class", "/nowhere")
        ran = subprocess.run(["bash", "-c", f"NNODES=2\n{guard}"], capture_output=True, text=True, check=False)

        assert ran.returncode == 1
        assert ran.stderr.startswith(f"no RoCE device in this pod: {says}")
        assert "uid=" not in ran.stderr


def test_a_path_that_is_unset_gets_no_empty_entry(cli: Cli, place: Path) -> None:
    text = script(cli, "job", "-s", "olivia", "-A", "a", "--launcher", "srun")

    lines = "\n".join(line for line in text.splitlines() if line.startswith("  export") and "PATH=" in line)
    shown = 'printf "<%s>" "$CPATH" "$LD_LIBRARY_PATH"'
    libraries = "/opt/libfabric/lib:/opt/nccl/lib:/opt/aws-ofi-nccl/lib:/usr/lib64"
    for env, more in (({}, ""), ({"CPATH": "/x", "LD_LIBRARY_PATH": "/x"}, ":/x")):
        ran = subprocess.run(["bash", "-c", f"{lines}\n{shown}"], env=env, capture_output=True, text=True, check=True)
        assert ran.stdout == f"</opt/libfabric/include{more}><{libraries}{more}>"


def test_packing_in_a_container_names_the_way_out() -> None:
    env = {"PATH": "", "APPTAINER_CONTAINER": "/image.sif"}
    ask = (
        "from uenvtool.image import programs\ntry: programs.find_program('mksquashfs')\nexcept Exception as e: print(e)"
    )

    ran = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True)

    assert "mksquashfs" in ran.stdout
    assert "pack on the host" in ran.stdout
    assert "apptainer exec --bind" in ran.stdout
    assert "apt install" not in ran.stdout
