"""Test the scripts next to a Containerfile, with stand-ins for podman, skopeo and srun, and with linters."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import project
from tests.support.needs import need
from tests.support.toml import loads

SKOPEO = """\
#!/bin/bash
# A registry in $STORE: a file for each name, with its digest.
echo "skopeo $*" >>"$STORE/log"
name() { local found=${1#docker://} && echo "$STORE/${found//\\//+}"; }
case $1 in
  inspect)
    [[ ! -e $STORE/down ]] || { echo 'dial tcp: no route to host' >&2; exit 1; }
    cat "$(name "${@: -1}")" 2>/dev/null || { echo 'manifest unknown' >&2; exit 1; } ;;
  copy) cp "$(name "$2")" "$(name "$3")" ;;
esac
"""
PODMAN = """\
#!/bin/bash
echo "podman $*" >>"$STORE/log"
[[ $1 != push ]] || echo "sha256:$RANDOM$RANDOM" >"$STORE/${2//\\//+}"
"""
SRUN = """\
#!/bin/bash
# Starts the command once, as srun would in a container.
echo "srun $*" >>"$STORE/log"
while [[ $1 == --* ]]; do shift; done
[[ $1 != env || $# -gt 1 ]] || { cat "$STORE/env" && exit; }
exec "$@"
"""


class Site:
    """A registry and nodes that are stand-ins, and the scripts of the recipe `mine`."""

    def __init__(self, folder: Path, cli: Cli) -> None:
        self.store, self.cli = folder / "store", cli
        self.store.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        for name, text in {"skopeo": SKOPEO, "podman": PODMAN, "srun": SRUN}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "STORE": str(self.store), "REGISTRY": "example.org/g"}

    def write(self) -> None:
        """Write the files of the recipe."""
        answer = self.cli("container", "mine", "--system", "clariden")
        assert answer.code == 0, answer.stderr

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the scripts; the log begins anew."""
        (self.store / "log").write_text("")
        command = ["bash", f"containers/mine/{script}", *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)

    @property
    def log(self) -> str:
        """What the stand-ins were called with."""
        return (self.store / "log").read_text()

    @property
    def names(self) -> list[str]:
        """The images in the registry."""
        return sorted(path.name.removeprefix("example.org+g+") for path in self.store.glob("example*"))


@pytest.fixture
def site(place: Path, cli: Cli, write: Write) -> Site:
    project(write, {"part": {}}, tag="1-alps6", image="alps", tests={"greets": {"run": ["echo", "a b"], "reason": "x"}})
    made = Site(place, cli)
    made.write()
    variables = made.run("test.sh", "none")
    assert variables.returncode == 0, variables.stderr
    expected = Path("containers/mine/test.sh").read_text().split("expected()")[1].split("\n}")[0]
    shown = subprocess.run(
        ["bash", "-c", f"expected(){expected}\n}}; expected"], capture_output=True, check=True
    ).stdout
    (made.store / "env").write_bytes(shown + b"HOME=/root\n")
    return made


def test_an_image_goes_from_built_to_tested_to_published(site: Site) -> None:
    assert site.run("ci.sh", "build").returncode == 0
    assert site.run("ci.sh", "publish").returncode == 1, "it is not tested yet"
    assert site.run("ci.sh", "test").returncode == 0, site.log
    published = site.run("ci.sh", "publish")

    assert published.returncode == 0, published.stderr
    canonical, tested, stable = sorted(site.names, key=len)[1], sorted(site.names, key=len)[2], "mine:1-alps6"
    assert stable in site.names
    assert tested.startswith(f"{canonical}-tested-")


def test_a_pipelines_tests_run_in_the_image_of_the_registry(site: Site) -> None:
    site.run("ci.sh", "build")
    site.run("ci.sh", "test")

    edf = re.search(r"--environment=(\S+)", site.log)
    assert edf is not None
    image = loads(Path(edf[1]).read_text())["image"]
    assert image == f"example.org#g/{min(set(site.names) - {'mine:1-alps6'}, key=len)}"


def test_what_is_in_the_registry_is_neither_built_nor_tested_again(site: Site) -> None:
    site.run("ci.sh", "build")
    site.run("ci.sh", "test")

    built = site.run("ci.sh", "build")
    assert built.returncode == 0
    assert "podman" not in site.log
    tested = site.run("ci.sh", "test")

    assert tested.returncode == 0
    assert "srun" not in site.log


def test_a_stable_name_is_never_given_to_another_image(site: Site) -> None:
    site.run("ci.sh", "build")
    site.run("ci.sh", "test")
    other = site.store / "example.org+g+mine:1-alps6"
    other.write_text("sha256:another")

    published = site.run("ci.sh", "publish")

    assert published.returncode == 1
    assert "mine:1-alps6 is already published with other contents" in published.stderr
    assert other.read_text() == "sha256:another"


def test_a_registry_that_does_not_answer_is_not_an_empty_one(site: Site) -> None:
    (site.store / "down").touch()

    built = site.run("ci.sh", "build")

    assert built.returncode == 1
    assert "no route to host" in built.stderr
    assert "podman" not in site.log


def test_an_image_whose_tests_fail_is_not_marked(site: Site) -> None:
    site.run("ci.sh", "build")
    (site.store / "env").write_text("FI_PROVIDER=tcp\n")

    tested = site.run("ci.sh", "test")

    assert tested.returncode == 1
    assert "FAILED  variables: not set as expected:" in tested.stdout
    assert "FI_PROVIDER=cxi" in tested.stdout
    assert not [name for name in site.names if "tested" in name]


@pytest.mark.parametrize(
    ("test", "result"),
    [
        ({"run": ["echo", "$(id) 'a' \\"]}, "ok      one"),
        ({"run": ["false"]}, "FAILED  one: exit code 1"),
        ({"run": ["echo", "a"], "prints": "^a$"}, "ok      one"),
        ({"run": ["echo", "b"], "prints": "^a$"}, "FAILED  one: no line of the output matches: ^a$"),
        ({"run": ["printenv", "A"], "env": {"A": "b'c"}, "prints": "b'c"}, "ok      one"),
    ],
)
def test_a_test_says_if_it_passed_and_why_not(site: Site, write: Write, test: dict[str, Any], result: str) -> None:
    project(write, {}, tests={"one": {**test, "reason": "x", "nodes": 2, "tasks": 4}})
    site.write()

    ran = site.run("test.sh", "one")

    assert ran.stdout.splitlines()[0] == result
    assert ran.returncode == (0 if result.startswith("ok") else 1)
    assert "--nodes=2 --ntasks-per-node=4" in site.log


def test_the_scripts_of_an_extended_image_start_it_as_its_site_says(site: Site) -> None:
    site.run("test.sh", "greets")

    assert "--environment=" in site.log
    assert "--mpi=pmix --network=disable_rdzv_get" in site.log


def test_shellcheck_finds_nothing_in_any_script() -> None:
    folders = [ROOT / "containers" / name for name in ("ngc-pytorch-26.02-alps6", "ngc-pytorch-25.06")]
    scripts = [path for folder in folders for path in sorted(folder.rglob("*.sh"))]

    found = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)

    assert {"ci.sh", "test.sh", "build.sh", "hook.sh", "fetch.sh"} <= {path.name for path in scripts}
    assert found.stdout == ""


def test_build_sh_builds_with_podman_and_imports_into_a_striped_folder(site: Site, place: Path) -> None:
    for name in ("enroot", "lfs"):
        program = Path(site.env["PATH"].split(":")[0]) / name
        program.write_text('#!/bin/bash\necho "${0##*/} $*" >>"$STORE/log"\n[[ $1 != import ]] || touch "$5"\n')
        program.chmod(0o755)
    site.env["IMAGES"] = str(place / "ce images")

    built = site.run("build.sh", "--network=host")

    assert built.returncode == 0, built.stderr
    image, edf = map(Path, built.stdout.splitlines()[-2:])
    assert image == place / "ce images" / "mine+1-alps6.sqsh"
    written = loads(edf.read_text())
    assert written == {**loads(Path("containers/mine/mine.toml").read_text()), "image": str(image)}
    assert "lfs setstripe -E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M" in site.log
    assert "enroot import -x mount -o" in site.log
    assert re.search(
        r"^podman build --file Containerfile --tag mine:1-alps6-.* --network=host \.$", site.log, re.MULTILINE
    )


def test_build_sh_that_podman_ends_names_its_storage_and_the_network(site: Site, place: Path) -> None:
    (Path(site.env["PATH"].split(":")[0]) / "podman").write_text("#!/bin/sh\nexit 125\n")

    built = site.run("build.sh")

    assert built.returncode == 1
    assert "/.config/containers/storage.conf" in built.stderr
    assert "--network=host" in built.stderr


class Fetching:
    """scripts/fetch.sh in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "src"
        self.folder.mkdir()

    def fetch(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        script = ROOT / "uenvtool/container/scripts/fetch.sh"
        return subprocess.run(["sh", script, *words], cwd=self.folder, capture_output=True, text=True, check=False)


@pytest.fixture
def fetching(place: Path) -> Fetching:
    return Fetching(place)


def repository(folder: Path) -> list[str]:
    """A git repository with two commits of one file; their hashes, the first one first."""
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    found = []
    for text in ("one\n", "two\n"):
        (folder / "a.txt").write_text(text)
        subprocess.run([*git, "add", "a.txt"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", text], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        found.append(head.stdout.strip())
    return found


def test_a_commit_of_git_is_fetched_and_no_other_and_one_that_is_not_there_ends_the_build(
    fetching: Fetching, place: Path
) -> None:
    first, _ = repository(place / "upstream")

    lost = fetching.fetch("git", "part 1.0", f"file://{place}/upstream", "1" * 40)
    shutil.rmtree(fetching.folder / ".git", ignore_errors=True)
    fetched = fetching.fetch("git", "part 1.0", f"file://{place}/upstream", first)

    assert lost.returncode == 1
    assert f"uenvtool: part 1.0 has no {'1' * 40} at file://{place}/upstream" in lost.stderr
    assert fetched.returncode == 0, fetched.stderr
    assert (fetching.folder / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("is_right", [True, False])
def test_a_patch_is_applied_if_it_is_the_one_on_record(fetching: Fetching, place: Path, is_right: bool) -> None:
    need("patch", "curl")
    (fetching.folder / "a.txt").write_text("one\n")
    patch = place / "change.patch"
    patch.write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n")
    checksum = hashlib.sha256(patch.read_bytes()).hexdigest() if is_right else "0" * 64

    fetched = fetching.fetch("patch", "part 1.0", f"file://{patch}", checksum)

    assert fetched.returncode == (0 if is_right else 1), fetched.stderr
    assert (fetching.folder / "a.txt").read_text() == ("two\n" if is_right else "one\n")
    assert ("has another checksum than expected" in fetched.stderr) != is_right
