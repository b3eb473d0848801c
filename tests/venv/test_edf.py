"""`uenvtool venv --edf FILE`: the command runs again in a container, through srun."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.overlays import run, wheel
from uenvtool.core.errors import BadInput
from uenvtool.venv.edf import podman_words, read_edf
from uenvtool.venv.reload import refuse_unmounted

SRUN = """\
#!/bin/bash
# Starts what it is given, as srun does in a container; the options come first.
while [[ $1 == --* ]]; do echo "$1" && shift; done
exec "$@"
"""


@pytest.fixture
def edf(place: Path) -> Path:
    """An EDF that mounts what this test and this program need."""
    mounts = [str(place), sys.base_prefix, str(Path(sys.prefix).resolve()), str(ROOT)]
    path = place / "mine.toml"
    path.write_text(f'image = "x.sqsh"\nmounts = {mounts}\n')
    return path


ECHO = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'
"""A program that prints its words."""


def with_srun(place: Path, text: str = SRUN, name: str = "srun") -> dict[str, str]:
    """An environment with a stand-in of srun, or of another program."""
    (place / "bin").mkdir(exist_ok=True)
    program = place / "bin" / name
    program.write_text(text)
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def test_the_command_is_run_again_in_a_container_in_the_same_folder(no_base: None, place: Path, edf: Path) -> None:
    env = with_srun(place, ECHO)

    done = run([sys.executable, "-m", "uenvtool", "venv", "a b", "six", "--edf", "mine.toml", "--squash"], env)

    assert done.stdout.splitlines() == [
        *(f"--environment={edf}", "--nodes=1", "--ntasks=1", "env", f"--chdir={place}"),
        f"UENVTOOL_STARTED_BY=srun --environment={edf}",
        *(sys.executable, "-E", "-m", "uenvtool", "venv", "a b", "six", "--squash"),
    ], done.stderr


def test_an_overlay_is_made_there(no_base: None, place: Path, edf: Path, wheels: Path) -> None:
    wheel(wheels, "six", "1.0")
    env = {**with_srun(place), **{name: os.environ[name] for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS")}}
    env["UV_OFFLINE"] = "1"

    done = run([sys.executable, "-m", "uenvtool", "venv", "mine", "--no-base", "six", "--edf", str(edf)], env)

    assert f"--environment={edf}" in done.stdout
    assert (place / "mine/bin/python").exists(), done.stderr
    assert f"  srun --environment={edf} mine/bin/python script.py\n" in done.stderr  # it is not there outside


@pytest.mark.parametrize("what", ["program", "folder"])
def test_a_container_that_lacks_what_the_command_needs_is_not_started(
    no_base: None, place: Path, edf: Path, what: str
) -> None:
    lacking = {"program": sys.base_prefix, "folder": str(place)}[what]
    edf.write_text(edf.read_text().replace(f"'{lacking}'", "'/nowhere'"))

    done = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--edf", "mine.toml"], with_srun(place))

    assert done.returncode == 2
    assert "the container will not have" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("mounts", "is_there"),
    [
        (["/a"], True),
        (["/a/b"], True),
        (["/a/b/c:/x"], False),
        (["/a:/a:ro"], True),
        (["${HERE}/b"], True),
        (["$HERE/b"], False),
        (["/ab"], False),
        ([], False),
    ],
)
def test_a_folder_is_in_a_container_if_it_is_mounted_at_its_own_place(
    mounts: list[str], is_there: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"mounts = {mounts}\n")

    edf = read_edf(str(path), {})

    if is_there:
        refuse_unmounted(edf, [Path("/a/b/c")], {"HERE": "/a"})
    else:
        with pytest.raises(BadInput, match=r"x.toml:1:1: the container will not have /a/b/c"):
            refuse_unmounted(edf, [Path("/a/b/c")], {"HERE": "/a"})


def test_an_edf_on_another_one_is_left_to_srun(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('base_environment = "other"\n')

    refuse_unmounted(read_edf(str(path), {}), [Path("/a")], {})


def test_an_edf_that_is_no_toml_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("mounts = [\n")

    with pytest.raises(BadInput, match=str(path)):
        read_edf(str(path), {})


def without_srun(place: Path) -> dict[str, str]:
    """An environment with a stand-in of podman that prints its words, and no srun."""
    env = with_srun(place, ECHO, "podman")
    return {name: value for name, value in env.items() if not name.startswith(("PIP_", "UV_", "NO_COLOR"))} | {
        "PATH": str(place / "bin"),
        "HOME": str(place / "home"),
    }


@pytest.mark.parametrize("also_srun", [False, True])
def test_without_srun_or_if_it_is_asked_for_podman_starts_the_container(
    no_base: None, place: Path, edf: Path, also_srun: bool
) -> None:
    env = {**without_srun(place), "PIP_INDEX_URL": "https://user:secret@index/simple", "DATA": str(place / "data")}
    (place / "data").mkdir()
    text = (
        edf.read_text().replace('"x.sqsh"', '"nvcr.io#nvidia/pytorch:25.06-py3"').replace("]", ", '${DATA}:/data:ro']")
    )
    edf.write_text(f'{text}[env]\nMINE = "a $b ${{DATA}}"\nGONE = ""\n')
    command = [sys.executable, "-m", "uenvtool", "venv", "a b", "six", "--edf", "mine.toml", "--squash"]
    if also_srun:
        with_srun(place)
        command.append("--podman")

    done = run(command, env)

    mounts = [str(place), sys.base_prefix, str(Path(sys.prefix).resolve()), str(ROOT)]
    words = done.stdout.splitlines()
    started_by = words.pop(1).partition("--env=UENVTOOL_STARTED_BY=")[2]
    assert shlex.split(started_by) == ["podman", *words[: words.index(sys.executable)]]
    assert words == [
        *("run", "--rm", "--interactive", "--security-opt=label=disable", "--user=0:0", f"--workdir={place}"),
        *(f"--volume={path}:{path}" for path in mounts),
        f"--volume={place}/data:/data:ro",
        *("--env=HOME", "--env=PIP_INDEX_URL"),
        *(f"--env=MINE=a $b {place}/data", "--unsetenv=GONE", "--entrypoint="),
        "nvcr.io/nvidia/pytorch:25.06-py3",
        *(sys.executable, "-E", "-m", "uenvtool", "venv", "a b", "six", "--squash"),
    ], done.stderr
    assert "secret" not in done.stdout


def test_podman_gets_the_program_too_and_an_edf_on_others(place: Path) -> None:
    (place / "home/.edf").mkdir(parents=True)
    (place / "home/.edf/low.toml").write_text(
        'image = "a.b/low:1"\nmounts = ["/etc"]\nentrypoint = true\nenv = {A = "1", B = "1"}\n'
    )
    (place / "top.toml").write_text('base_environment = "low"\nmounts = ["/usr/share:/x:ro+nosuid"]\nenv = {B = "2"}\n')
    edf = read_edf("top.toml", {"HOME": str(place / "home")})

    words = podman_words(edf, [Path("/opt/tool"), Path("/etc/tool")], "/etc", {})

    assert words[6:] == [
        *("--volume=/etc:/etc", "--volume=/usr/share:/x:ro,nosuid", "--volume=/opt/tool:/opt/tool:ro"),
        *("--env=A=1", "--env=B=2", "a.b/low:1"),
    ]


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("ubuntu:24.04", "docker.io/ubuntu:24.04"),
        ("nvidia/cuda:12", "docker.io/nvidia/cuda:12"),
        ("me@nvcr.io#nvidia/pytorch:1", "nvcr.io/nvidia/pytorch:1"),
        ("a.b:5000/c@sha256:1", "a.b:5000/c@sha256:1"),
        ("localhost/mine", "localhost/mine"),
    ],
)
def test_an_image_is_named_as_podman_names_it(place: Path, image: str, named: str) -> None:
    Path("x.toml").write_text(f'image = "{image}"\n')

    assert podman_words(read_edf("x.toml", {}), [], "/", {})[-1] == named


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ('\nimage = "/a/x.sqsh"', "x.toml:2:10: podman cannot run a squashfs file, /a/x.sqsh", "podman import"),
        ('image = "${HOME}/x.sqsh"', "x.toml:1:10: podman cannot run a squashfs file", "REGISTRY#IMAGE"),
        ('mounts = ["/"]', "x.toml:1:1: it names no image", "write one"),
        ('image = "a"\nmounts = ["/gone"]', "x.toml:2:12: /gone is not here to be mounted", "make it"),
        ('image = "a"\nmounts = ["/etc:/x:sqsh"]', "x.toml:2:12: podman cannot mount a squashfs file", "srun"),
        ('image = "a"\nmounts = ["/etc:/x:odd"]', "x.toml:2:12: podman has no flag odd", "take it out"),
        ('image = "a"\nmounts = ["${GONE}:/x"]', "x.toml:2:12: GONE is not set", "export GONE"),
        ('image = "a"\nenv = {A = "${GONE}"}', "x.toml:2:8: GONE is not set", "export GONE"),
        ('image = "a"\nbase_environment = "other"', "x.toml:2:1: an EDF that this one builds on", "EDF_PATH"),
        ('base_environment = "./x.toml"', "x.toml:1:1: base_environment leads in a circle", "take it out"),
        ("image = 5", "x.toml:1:1: image must be a text", "container"),
        ('image = "a"\nmounts = "/"', "x.toml:2:1: mounts must be a list", "container"),
    ],
)  # fmt: skip
def test_what_podman_cannot_run_is_told_with_its_place(place: Path, text: str, told: str, hint: str) -> None:
    Path("x.toml").write_text(f"{text}\n")

    with pytest.raises(BadInput) as refused:
        podman_words(read_edf("x.toml", {}), [], "/", {"HOME": "/home"})

    assert str(refused.value).startswith(told)
    assert hint in str(refused.value).partition("hint: ")[2]


def test_without_both_programs_and_for_podman_without_an_edf_it_is_told(no_base: None, place: Path, edf: Path) -> None:
    env = {**without_srun(place), "PATH": "/nonexistent"}

    neither = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--edf", "mine.toml"], env)
    no_edf = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--podman"], env)
    no_name = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--edf", "mine"], without_srun(place))

    assert (neither.returncode, no_edf.returncode, no_name.returncode) == (3, 2, 2)
    assert "--edf mine.toml: srun and podman are not here" in neither.stderr
    assert "--podman starts the container of an EDF\nhint: name the EDF" in no_edf.stderr
    assert "no EDF is called mine\nhint: name its path" in no_name.stderr
