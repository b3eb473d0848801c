"""Test the store that Spack sees at the mount point, and the messages for failures, with stand-ins for Spack."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.ordinary_user import public_folder, run_as_ordinary_user
from tests.support.programs import program
from tests.support.project import ROOT
from uenvtool.core.errors import ToolFailed
from uenvtool.env.install import MAX_RUNS, MOUNTING, InstallOptions, install, sandboxed
from uenvtool.env.installable import Installable, read_installable
from uenvtool.env.output import explain_failed_install, explain_failure
from uenvtool.env.program import Spack

SPACK = Spack(Path("/spack/bin/spack"), "1.1.0", "PATH")
HASH = "q7z6cxi3epbr7e73s6ljvxn42zarvmle"


def stood_in(folder: Path) -> None:
    (folder / "store").mkdir()
    (folder / "mount").mkdir()
    (folder / "mount" / "of-another").write_text("image")


TRIES = """
tried() { if sh -c "echo x > $1/written" 2> /dev/null; then echo "$2 written"; else echo "$2 kept"; fi; }
tried "$1/mount" mount; tried "$1/store" store; tried "$1/cache" cache; tried . here
tried "$1/home" home; tried "$1/home/.spack" own; tried "$2" project; tried /etc system
folder=$(mktemp -d) && rmdir "$folder" && echo tmp written
echo x > /dev/null && echo null written
"""
KEPT_IN = {
    **dict.fromkeys(("mount", "store", "cache", "own", "tmp", "here", "null"), "written"),
    **dict.fromkeys(("home", "project", "system"), "kept"),
}


def tried(place: Path, project: Path) -> tuple[list[str | Path], dict[str, str]]:
    """The words that try to write to many places, in folders that are made here, and their variables."""
    stood_in(place)
    for name in ("cache", "home", "home/.spack"):
        (place / name).mkdir(exist_ok=True)
    writable = [word for name in ("cache", "home/.spack") for word in ("--writable", place / name)]
    script = ["sh", "-c", f"cd {place}/store; {TRIES}", "sh", place, project]
    return [*MOUNTING, *writable, place / "store", place / "mount", *script], {"HOME": str(place / "home")}


def only_the_command_saw_the_store_at_the_mount_point(folder: Path) -> None:
    assert os.listdir(folder / "store") == ["written"]
    assert os.listdir(folder / "mount") == ["of-another"]


def test_a_build_writes_nowhere_but_where_it_may(place: Path) -> None:
    elsewhere = Path("/var/lib") if ROOT.is_relative_to(tempfile.gettempdir()) else ROOT
    words, more = tried(place, elsewhere)

    done = subprocess.run(words, env={**os.environ, **more}, capture_output=True, text=True, check=False)

    skip_if_not_kept_in(done.stderr)
    assert dict(line.split() for line in done.stdout.splitlines()) == KEPT_IN, done.stderr
    only_the_command_saw_the_store_at_the_mount_point(place)
    assert os.listdir(place / "home") == [".spack"]
    assert not (elsewhere / "written").exists()


def test_a_build_of_an_ordinary_user_writes_nowhere_else_either() -> None:
    with public_folder() as folder, public_folder() as project:
        words, more = tried(folder, project)

        done = run_as_ordinary_user(words, folder=folder, env=more)

        skip_if_not_kept_in(done.stderr)
        found = dict(line.split() for line in done.stdout.splitlines())
        assert {**found, "project": "kept"} == KEPT_IN, done.stderr  # that one lies below /tmp
        only_the_command_saw_the_store_at_the_mount_point(folder)
        assert os.listdir(folder / "home") == [".spack"]


def skip_if_not_kept_in(errors: str) -> None:
    """Skip where a kernel has no mount_setattr, or a container forbids mounts."""
    if "a private mount namespace" in errors or "builds can write everywhere" in errors:
        pytest.skip("needs a mount namespace of Linux 5.12 or later, which this machine does not give")


OF_1_1 = "==> Error: ProcessError: Command exited with status 2:\n\nSee build log for details:\n  {log}\n"
OF_1_2 = "[x] q7z6cxi zlib-ng@2.2.2 failed: {log} (1s)\n==> Error: The following packages failed to install:\n"
OF_1_2 += f"zlib-ng@2.2.2/{HASH}: {{log}}\n"


@pytest.mark.parametrize(
    ("version", "log", "output", "why"),
    [
        ("1.1.0", f"{HASH}/spack-build-out.txt", OF_1_1, ": ProcessError: Command exited with status 2"),
        ("1.2.0", f"{HASH}-2c9h_5rn.log", OF_1_2, ""),
    ],
)
def test_a_failed_build_says_which_package_and_how_its_log_ends(
    place: Path, version: str, log: str, output: str, why: str
) -> None:
    file = place / f"spack-stage-zlib-ng-2.2.2-{log}"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"line {i}\n" for i in range(40)) + "make: *** [all] Error 1\n")
    spack = replace(SPACK, version=version)

    error = str(explain_failed_install(spack, code=1, output=output.format(log=file), log=place / "spack.log"))

    assert f"Spack {version} could not install zlib-ng-2.2.2{why}\n" in error
    assert "  make: *** [all] Error 1" in error
    assert "line 1\n" not in error
    assert f"see the package's log in {file}" in error


def test_what_could_not_be_fetched_is_named_with_the_option_that_gives_it(tmp_path: Path) -> None:
    of_a_source = f"==> Error: FetchError: All fetchers failed for spack-stage-compiler-wrapper-1.1.0-{HASH}\n"
    of_a_repository = (  # as Spack v1.1.0 prints it without a network
        "==> Warning: Error constructing repository '/c/4jk47i3': Failed to clone repository alps\n"
        "==> Error: cannot concretize 'cray-pals os=sles15 target=neoverse_v2', since 'cray-pals' does not exist.\n"
    )

    source = str(explain_failed_install(SPACK, code=1, output=of_a_source, log=tmp_path / "log"))
    repository = str(explain_failure(SPACK, code=1, output=of_a_repository, log=tmp_path / "log"))

    assert re.search(r"could not fetch the source of compiler-wrapper-1.1.0(?s:.*)--mirror URL", source)
    assert re.search(r"could not fetch the package repository alps(?s:.*)--repo alps=PATH", repository)


def test_what_the_command_started_ends_with_it_also_by_a_kill(place: Path) -> None:
    stood_in(place)
    beat = place / "beat"
    code = f"while :; do echo . >> {beat}; sleep 0.05; done"
    words = [*MOUNTING, place / "store", place / "mount", "sh", "-c", f"({code}) & wait"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as run:
        until(lambda: beat.exists() or run.poll() is not None)
        if run.poll() is not None and "a private mount namespace" in str(run.stderr and run.stderr.read()):
            pytest.skip("needs a mount namespace, which this container forbids")

        run.kill()
    time.sleep(0.3)
    size = beat.stat().st_size
    time.sleep(0.3)

    assert beat.stat().st_size == size


def test_a_command_ends_with_its_own_exit_code(place: Path) -> None:
    stood_in(place)
    words = [*MOUNTING, place / "store", place / "mount"]

    codes = {
        script: subprocess.run([*words, "sh", "-c", script], capture_output=True, check=False).returncode
        for script in ("exit 0", "exit 7", "kill -9 $$")
    }

    if set(codes.values()) == {125}:
        pytest.skip("needs a mount namespace, which this container forbids")
    assert codes == {"exit 0": 0, "exit 7": 7, "kill -9 $$": 137}
    done = subprocess.run([*words[:3], place / "absent", "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:18]) == (125, "with_mount: cannot")


def until(ready: Callable[[], bool]) -> None:
    for _ in range(200):
        if ready():
            return
        time.sleep(0.05)


RACE = "Failed to upgrade to a write lock for zlib-ng due to LockUpgradeError: Cannot upgrade lock from read to write"


def stand_in(place: Path, ends: list[str]) -> tuple[Spack, Installable]:
    """A Spack that notes its words, and ends with these errors, one a run."""
    (place / "mount").mkdir()
    root = place / "spack"
    words = 'echo "$*" >> "$0.runs"; run=$(wc -l < "$0.runs")'
    says = 'error=$(sed -n "${run}p" "$0.ends"); [ -z "$error" ] || { echo "$error" >&2; exit 1; }'
    program(root / "bin" / "spack", f"{words}\n{says}")
    (root / "bin" / "spack.ends").write_text("".join(f"{end}\n" for end in ends))
    environment = replace(read_installable(ROOT / "envs/hello/clariden-gh200"), mount=str(place / "mount"))
    return Spack(root / "bin" / "spack", "1.1.0", "PATH"), environment


@pytest.mark.parametrize(
    ("ends", "shared", "runs"),
    [
        ([RACE, RACE, ""], True, 3),
        ([RACE] * MAX_RUNS, True, MAX_RUNS),
        (["ProcessError: make", ""], True, 1),
        ([RACE, ""], False, 1),
    ],
)
def test_a_spack_that_lost_a_race_for_a_lock_goes_on(place: Path, ends: list[str], shared: bool, runs: int) -> None:
    spack, environment = stand_in(place, ends)
    (place / "store").mkdir()
    failure = ""

    try:
        install(spack, environment, place / "store", InstallOptions(shared=shared))
    except ToolFailed as error:
        failure = str(error)

    skip_if_not_kept_in(failure)
    ran = Path(f"{spack.program}.runs").read_text().splitlines()
    assert ends[runs - 1] in failure
    assert bool(failure) == bool(ends[runs - 1])
    assert len(ran) == runs
    assert all(" install " in words for words in ran)
    assert {"--fail-fast" in words for words in ran} == {not shared}  # what one node cannot build, another may


def test_a_scope_of_the_user_counts_before_the_environment_and_spack_has_its_own_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPACK_USER_CACHE_PATH", raising=False)
    monkeypatch.setenv("HOME", str(place / "home"))
    (place / "work").mkdir()
    environment = read_installable(ROOT / "envs/hello/clariden-gh200")

    runner = sandboxed(SPACK, environment, place, place / "work", InstallOptions(scope=place / "scope"))

    words = runner.command("install")
    assert [words[index + 1] for index, word in enumerate(words) if word == "-C"] == [
        str(place / "scope"),
        str(place / "work" / "configuration"),  # of two the later one counts: Spack 1.1, add_command_line_scopes
    ]
    assert (place / "home" / ".spack").is_dir()


@pytest.mark.parametrize("complete", ["", "of-an-earlier-lock"])
def test_a_view_that_a_killed_run_left_half_made_is_not_in_the_way(place: Path, complete: str) -> None:
    spack, environment = stand_in(place, [])
    views = place / "store" / "env" / f"._{environment.view}"
    for name in filter(None, ("half-made", complete)):
        (views / name / "bin").mkdir(parents=True)
    if complete:
        (views.parent / environment.view).symlink_to(f"{environment.mount}/env/{views.name}/{complete}")

    try:
        install(spack, environment, place / "store", InstallOptions(shared=True))
        beside = sorted(os.listdir(views))
        install(spack, environment, place / "store", InstallOptions())
    except ToolFailed as error:
        skip_if_not_kept_in(str(error))
        raise

    rest = [complete] if complete else []
    assert beside == sorted(["half-made", *rest])
    assert sorted(os.listdir(views)) == rest
