"""The batch script that builds an image, and what is read from a store; without Slurm and Spack."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.support.kept_images import spack_that_only_has_a_version
from tests.support.needs import need
from tests.support.programs import program
from uenvtool.core import files
from uenvtool.env.installable import Installable, read_installable
from uenvtool.env.program import Spack
from uenvtool.image.build import ImagePlan
from uenvtool.image.cache import Cache, Key, named_cache
from uenvtool.image.request import ImageRequest
from uenvtool.image.slurm import job_script
from uenvtool.knowledge.lock import Package
from uenvtool.knowledge.site import Site

HOSTILE = "a 'b\" $(touch hacked) \\"
FOLDER = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200"


@pytest.fixture(scope="module")
def environment() -> Installable:
    return read_installable(FOLDER)


def script(
    environment: Installable,
    place: Path,
    request: ImageRequest,
    name: str = HOSTILE,
    push_caches: tuple[Cache, ...] = (),
) -> str:
    plan = ImagePlan(
        found_spack=Spack(place / "spack" / "bin" / "spack", "1.1.0", "--spack"),
        environments=(environment,),
        key=Key(name="pytorch-2.6", inputs="0" * 12),
        target=place / f"{name}.squashfs",
        store=place / name,
        request=request,
        site=Site(),
        push_caches=push_caches,
    )
    return job_script(request, plan)


def test_the_script_builds_on_all_nodes_and_then_once_more(environment: Installable, place: Path) -> None:
    request = ImageRequest(
        sources=("pytorch-2.6",),
        cache=("https://site/cache",),
        push="https://site/cache",
        jobs=8,
        nodes=4,
        partition="normal",
        account="g123",
        time="24:00:00",
    )

    text = script(environment, place, request)

    for line in ("nodes=4", "partition=normal", "account=g123", "time=24:00:00", "no-kill", "requeue", "exclusive"):
        assert f"#SBATCH --{line}" in text
    assert text.count('"${build[@]}"') == 2
    assert text.index("--install-only") < text.rindex('"${build[@]}"')


def test_the_job_puts_the_image_where_it_is_kept(environment: Installable, place: Path) -> None:
    request = ImageRequest(sources=("hello",), tag="hash", push_image=("kept",))

    text = script(environment, place, request, push_caches=(named_cache("kept"),))

    assert f"--tag hash --push-image {place}/kept" in text


def test_one_node_needs_no_step_that_shares(environment: Installable, place: Path) -> None:
    text = script(environment, place, ImageRequest(sources=("hello",)))

    assert "srun" not in text
    assert "--account" not in text


def test_hostile_paths_are_data_to_bash(environment: Installable, place: Path) -> None:
    request = ImageRequest(sources=(f"x\n{HOSTILE}",), repo=(f"builtin={place / HOSTILE}",), mirror=(HOSTILE,), nodes=2)
    text = script(environment, place, request)
    recording = text.replace('"${build[@]}"', "printf '%s\\0' \"${build[@]}\"").replace("srun", ":")

    ran = subprocess.run(["bash", "-c", recording], capture_output=True, text=True, check=True)

    words = ran.stdout.split("\0")
    assert str(place / f"{HOSTILE}.squashfs") in words
    assert f"builtin={place / HOSTILE}" in words
    assert f"file://{place / HOSTILE}" in words
    assert not (place / "hacked").exists()


def test_shellcheck_finds_nothing(environment: Installable, place: Path) -> None:
    path = place / "build.sh"
    path.write_text(script(environment, place, ImageRequest(sources=("hello",), nodes=2), "hello"))

    found = subprocess.run([need("shellcheck"), path], capture_output=True, text=True, check=False)

    assert found.returncode == 0, found.stdout


def test_without_sbatch_it_says_so_before_it_does_anything(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    answer = cli("image", "build", "hello", "--slurm", "--store", place / "store")

    assert answer.code == 3
    assert "sbatch is not here" in answer.stderr
    assert not (place / "store").exists()


@pytest.mark.parametrize(
    ("is_installed", "is_packed", "code"), [("another", False, 4), ("the same", False, 0), ("the same", True, 4)]
)
def test_a_store_that_somebody_works_on_gets_no_other_lock(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, is_installed: str, is_packed: bool, code: int
) -> None:
    program(place / "sbatch", "echo 1")
    monkeypatch.setenv("PATH", str(place), prepend=":")
    spack = spack_that_only_has_a_version(place / "spack")
    words = ("image", "build", FOLDER, "--slurm", "--store", place / "store", "--spack", spack)
    lock = place / "store/.uenvtool-install/environment/spack.lock"
    lock.parent.mkdir(parents=True)
    text = (FOLDER / "spack.lock").read_text() if is_installed == "the same" else "{}"
    lock.write_text(text)

    with files.locked(place / "store", shared=not is_packed):
        answer = cli(*words)

    assert answer.code == code, answer.stderr
    assert (f"{place}/store is in use" in answer.stderr) is (code == 4)
    assert lock.read_text() == text
    assert cli(*words).code == 0


def store_of(place: Path, environment: Installable, *, installed: list[Package], begun: list[Package]) -> Path:
    """A store in which some packages are registered and others are being built."""
    store = place / "store"
    (store / ".uenvtool-install" / "environment").mkdir(parents=True)
    shutil.copy(FOLDER / "spack.lock", store / ".uenvtool-install" / "environment")
    (store / ".spack-db").mkdir()
    rows = {package.hash: {"installed": True, "path": "/x"} for package in installed}
    (store / ".spack-db" / "index.json").write_text(json.dumps({"database": {"installs": rows}}))
    for package in begun:
        folder = store / ".uenvtool-install" / "stage" / f"spack-stage-{package.name}-{package.version}-{package.hash}"
        folder.mkdir(parents=True)
        (folder / "spack-build-out.txt").write_text("make: *** [all] Error 1\n")
    return store


def test_the_status_counts_what_is_there_begun_and_left(cli: Cli, place: Path, environment: Installable) -> None:
    packages = [package for package in environment.lock.packages if not package.external]
    external = len(environment.lock.packages) - len(packages)
    store = store_of(place, environment, installed=packages[:5], begun=packages[5:7])

    answer = cli("image", "status", store)
    found = json.loads(cli("image", "status", store, "--json").stdout)

    assert answer.code == 0, answer.stderr
    assert f"{external + 5} of {len(packages) + external} packages are there, 2 begun, " in answer.stdout
    assert {build["package"] for build in found["building"]} == {f"{p.name}@{p.version}" for p in packages[5:7]}
    assert len(found["waiting"]) == len(packages) - 7


@pytest.mark.parametrize("spack", ["1.1", "1.2"])
def test_a_package_that_failed_is_shown_with_the_end_of_its_log(
    cli: Cli, place: Path, environment: Installable, spack: str
) -> None:
    """Spack 1.1 marks it in the store, 1.2 names it in the output of the run alone."""
    package = next(package for package in environment.lock.packages if not package.external)
    store = store_of(place, environment, installed=[], begun=[package] if spack == "1.1" else [])
    work = store / ".uenvtool-install"
    if spack == "1.1":
        (store / ".spack-db" / "failures").mkdir()
        (store / ".spack-db" / "failures" / f"{package.name}-{package.hash}").touch()
    else:
        log = work / "stage" / f"spack-stage-{package.name}-{package.version}-{package.hash}-2c9h_5rn.log"
        log.parent.mkdir()
        log.write_text("make: *** [all] Error 1\n")
        (work / "spack.log").write_text(f"[x] abcdefg {package.name}@1 failed: {log} (1s)\n")

    answer = cli("image", "status", store)

    assert answer.code == 1
    assert "1 failed" in answer.stdout
    assert "make: *** [all] Error 1" in answer.stdout


@pytest.mark.parametrize(
    ("squeue", "state", "why"),
    [
        ("", "unknown", "squeue is not here"),
        (
            "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
            "unknown",
            "Unable to contact",
        ),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "ended", ""),
        ("echo 'RUNNING node[1-2]'", "running node[1-2]", ""),
    ],
)
def test_a_job_has_ended_only_if_slurm_says_so(
    cli: Cli, place: Path, environment: Installable, monkeypatch: pytest.MonkeyPatch, squeue: str, state: str, why: str
) -> None:
    store = store_of(place, environment, installed=[], begun=[])
    (store / ".uenvtool-install" / "job.json").write_text('{"job": "7", "image": "/x.squashfs"}')
    if squeue:
        program(place / "squeue", squeue)
    monkeypatch.setenv("PATH", f"{place}:/nonexistent")

    answer = cli("image", "status", store, "--json")

    found = json.loads(answer.stdout)
    assert found["job_state"] == state
    assert found["running"] is state.startswith("running")
    assert why in answer.stderr
    assert ("is unknown" in answer.stderr) == bool(why)


def test_a_folder_that_is_no_store_is_refused(cli: Cli, place: Path) -> None:
    answer = cli("image", "status", place)

    assert answer.code == 2
    assert shlex.quote(str(place)) in answer.stderr
