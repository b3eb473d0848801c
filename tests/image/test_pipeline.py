"""The pipeline of a uenv: as GitLab's own schema has it, and its script run by bash, against folders and a registry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Cli
from tests.container.test_pipelines import checked
from tests.support.kept_images import ENVIRONMENT, inputs, packed_image
from tests.support.needs import need
from tests.support.programs import program
from tests.support.registry import running_registry
from uenvtool.image.metadata import ENV

FOLDER = "pipelines/pytorch-2.6/clariden-gh200"
IMAGE = f"pytorch-2.6-{inputs()}.squashfs"


class Project:
    """A repository with the environment of pytorch-2.6 and its pipeline, and a place with the image that is tested."""

    def __init__(self, folder: Path, cli: Cli) -> None:
        shutil.copytree(ENVIRONMENT, folder / "envs/pytorch-2.6/clariden-gh200")
        answer = cli("image", "pipeline", "pytorch-2.6", "--system", "clariden")
        assert answer.code == 0, answer.stderr
        program(folder / "programs" / "uenvtool", f'exec {sys.executable} -m uenvtool "$@"')
        (folder / "tests.sh").write_text('echo "tested $1"\n')
        self.folder = folder
        self.env = {
            **os.environ,
            "PATH": f"{folder}/programs:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "IMAGES": str(folder / "kept"),
            "DEPLOY": str(folder / "deploy"),
            "TESTS": "tests.sh",
        }

    def run(self, step: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a step as a job of GitLab does: at the top of the repository."""
        command = ["bash", f"{FOLDER}/ci.sh", step]
        return subprocess.run(command, env={**self.env, **more}, capture_output=True, text=True, check=False)


@pytest.fixture
def project(place: Path, cli: Cli) -> Project:
    need("mksquashfs", "unsquashfs")
    (place / "kept").mkdir()
    packed_image(place / "kept" / IMAGE, inputs(), {ENV: json.dumps({"name": "x", "mount": "/user-environment"})})
    return Project(place, cli)


def test_it_is_as_gitlabs_schema_wants_it_and_its_jobs_are_in_order(place: Path, cli: Cli) -> None:
    for recipe, system in (("pytorch-2.6", "clariden"), ("hello", "local"), ("pytorch-2.9", "rcp")):
        words = ("--uarch", "a100") if system == "rcp" else ()
        assert cli("image", "pipeline", recipe, "--system", system, *words).code == 0
    files = sorted(Path("pipelines").glob("*/*/gitlab-ci.yml"))

    assert len(files) == 3
    assert checked(files) == ""
    jobs = {name: job for name, job in yaml.safe_load(files[1].read_text()).items() if isinstance(job, dict)}
    name = "pytorch-2.6 clariden-gh200"
    assert list(jobs) == [f".{name}", *(f"{name} {step}" for step in ("resolve", "build", "test", "publish"))]
    assert jobs[f"{name} publish"]["needs"] == [f"{name} test"]


def test_shellcheck_has_nothing_to_say(project: Project) -> None:
    words = [need("shellcheck"), f"{FOLDER}/ci.sh"]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.stdout == ""


def test_the_same_inputs_give_it_again_and_a_changed_one_is_seen(project: Project, cli: Cli) -> None:
    words = ("image", "pipeline", "pytorch-2.6", "--system", "clariden", "--check")
    assert cli(*words).code == 0

    script = project.folder / FOLDER / "ci.sh"
    script.write_text(script.read_text().replace("has_passed", "true"))

    assert cli(*words).code == 1
    assert cli("image", "pipeline", "pytorch-2.6", "--system", "clariden", "-o", "/elsewhere").code == 2


def test_what_a_check_proposes_mends_what_it_found(place: Path, cli: Cli) -> None:
    words = ("image", "pipeline", "hello", "--system", "clariden", "-o", "of mine")
    assert cli(*words).code == 0
    (place / "of mine/ci.sh").unlink()

    checked = cli(*words, "--check")
    *_, command = re.findall(r"uenvtool (image pipeline [^`]*)", checked.stderr)

    assert checked.code == 1
    assert cli(*shlex.split(command)).code == 0
    assert cli(*words, "--check").code == 0


def test_a_committed_environment_is_compared_and_what_differs_ends_the_job(project: Project) -> None:
    right = project.run("resolve")
    manifest = project.folder / "envs/pytorch-2.6/clariden-gh200/spack.yaml"
    manifest.write_text(manifest.read_text().replace("py-torch", "py-tarch"))
    wrong = project.run("resolve")

    assert right.returncode == 0, right.stderr
    assert wrong.returncode == 1
    assert "py-tarch" in wrong.stderr
    assert "commit what this job has made of it" in wrong.stderr


def test_the_environments_of_one_image_are_each_compared_and_built_together(place: Path, cli: Cli) -> None:
    assert cli("image", "pipeline", "pytorch-2.6", "hello", "--system", "clariden").code == 0
    for recipe in ("pytorch-2.6", "hello"):
        shutil.copytree(ROOT / "envs" / recipe / "clariden-gh200", place / "envs" / recipe / "clariden-gh200")
    program(place / "programs" / "uenvtool", 'echo "$@" >> words')
    env = {**os.environ, "PATH": f"{place}/programs:{os.environ['PATH']}", "IMAGES": "kept"}

    for step in ("resolve", "build"):
        done = subprocess.run(["bash", f"{FOLDER}/ci.sh", step], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    where = "--system clariden --uarch gh200 -o"
    assert (place / "words").read_text().splitlines() == [
        f"build pytorch-2.6 {where} envs/pytorch-2.6/clariden-gh200 --check",
        f"build hello {where} envs/hello/clariden-gh200 --check",
        "image build envs/pytorch-2.6/clariden-gh200 envs/hello/clariden-gh200 --tag hash --images kept "
        "--push-image kept -o images/",
    ]


def test_an_image_is_taken_tested_marked_and_published(project: Project) -> None:
    early = project.run("publish")
    built = project.run("build")
    tested = project.run("test")
    again = project.run("test", TESTS="absent.sh")
    published = project.run("publish")

    assert early.returncode == 1
    assert f"{IMAGE} has not passed the tests" in early.stderr
    assert built.returncode == 0, built.stderr
    assert tested.returncode == 0, tested.stderr
    assert f"tested {project.folder}/images/{IMAGE}" in tested.stdout
    assert again.returncode == 0, again.stderr
    assert f"{IMAGE} has passed the tests" in again.stdout
    assert published.returncode == 0, published.stderr
    assert sorted(path.name for path in (project.folder / "deploy").iterdir()) == [IMAGE, f"{IMAGE}.tested"]
    assert sorted(path.name for path in (project.folder / "kept").glob("*.tested")) == [f"{IMAGE}.tested"]


@pytest.mark.slow
def test_tests_that_fail_and_a_report_that_says_so_leave_no_mark(project: Project) -> None:
    (project.folder / "fails.sh").write_text("exit 3\n")
    report = project.folder / "report.json"
    report.write_text(
        '{"session_info": {"num_cases": 1, "num_failures": 1, "time_start_unix": 4e9}, "runs": [{"testcases": []}]}'
    )

    failed = project.run("test", TESTS="fails.sh")
    reported = project.run("test", REFRAME_REPORT=str(report))

    assert (failed.returncode, reported.returncode) == (3, 1)
    assert "1 of 1 tests did not pass" in reported.stderr
    assert project.run("publish").returncode == 1
    assert not (project.folder / "deploy").exists()


@pytest.mark.real
@pytest.mark.slow
def test_in_a_registry_a_release_is_a_tag_that_no_other_image_gets(project: Project, place: Path) -> None:
    need("skopeo", "docker-registry")
    with running_registry(place / "registry") as host:
        places = {"IMAGES": f"oci://{host}/build", "DEPLOY": f"oci://{host}/deploy", "RELEASE": "v1"}
        (place / "images").mkdir()
        shutil.copy(place / "kept" / IMAGE, place / "images" / IMAGE)
        steps = [project.run(step, **places) for step in ("build", "test", "publish", "publish")]
        assert [step.returncode for step in steps] == [0, 0, 0, 0], [step.stderr for step in steps]
        published = f"{host}/deploy/pytorch-2.6"
        digests = {tag: digest(f"{published}:{tag}") for tag in (inputs(), "v1")}
        words = ["skopeo", "copy", f"docker://{published}:{inputs()}-meta", f"docker://{published}:v2"]
        subprocess.run(words, check=True, capture_output=True)
        refused = project.run("publish", **{**places, "RELEASE": "v2"})

    assert digests[inputs()] == digests["v1"]
    assert "pytorch-2.6:v1 is published" in steps[3].stdout
    assert refused.returncode == 1
    assert "pytorch-2.6:v2 is another image, and stays so" in refused.stderr


def digest(reference: str) -> str:
    words = ["skopeo", "inspect", "--raw", f"docker://{reference}"]
    return hashlib.sha256(subprocess.run(words, capture_output=True, check=True).stdout).hexdigest()
