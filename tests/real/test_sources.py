"""What will be downloaded is listed as real Spack has it, and mirrored by it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.real.conftest import RealSpack
from tests.support import peers
from tests.support.installed import Installed, installed_hello
from tests.support.needs import needs_solver
from tests.support.project import ROOT
from uenvtool.env.environment import Environment, plan_environment
from uenvtool.env.installable import Installable, read_installable
from uenvtool.env.program import Spack, find_spack, repository_folder
from uenvtool.env.sources import run_lister, sources_of
from uenvtool.knowledge.choice import load_recipe
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.system import load_system

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points"),
    pytest.mark.xdist_group("spack"),
    needs_solver,
]


@pytest.fixture
def hello(monkeypatch: pytest.MonkeyPatch) -> Installable:
    monkeypatch.setenv("SPACK_PYTHON", sys.executable)
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(peers.spack_user()))
    installed: Installed = installed_hello()
    return read_installable(installed.environment)


def spack() -> Spack:
    found = find_spack(peers.SPACK.need())
    assert found is not None
    return found


def planned(hello: Installable) -> Environment:
    """The plan that the installed environment is made from."""
    return plan_environment(load_recipe("hello"), on_this_machine(load_system(str(late(hello)))), "host")


def late(hello: Installable) -> Path:
    """The file of the system that it is installed for."""
    return hello.folder.parent / "systems" / "late.yaml"


def test_binaries_are_those_of_the_node_and_not_of_this_machine(real_spack: RealSpack, place: Path) -> None:
    recipe = load_recipe("pytorch-2.6")
    folder = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200"
    environment = plan_environment(recipe, load_system("clariden"), "gh200")

    repos = real_spack.repositories(recipe)
    found = sources_of(spack(), environment, read_installable(folder), repos=repos, log=place / "log", compiler=True)

    assert [source.url.rpartition("/")[2] for source in found if source.package == "gcc@13.3.0"][:1] == [
        "gcc-13.3.0.tar.xz"  # which is built first
    ]
    packages = {source.package.partition("@")[0]: source.url for source in found}
    for name in ("cudnn", "cutensor", "go-bootstrap", "py-tiktoken", "py-wandb", "rust-bootstrap"):
        assert re.search("aarch64|arm64|sbsa", packages[name]), packages[name]
    assert [source.url for source in found if re.search("x86_64|amd64", source.url)] == []


def test_each_source_of_the_lock_is_listed_with_its_sum(hello: Installable, place: Path) -> None:
    mirror = peers.SOURCES.need()
    repos = {"builtin": repository_folder("builtin", peers.PACKAGES.need())}

    found = sources_of(spack(), planned(hello), hello, repos=repos, log=place / "log")

    in_mirror = {path.name.split(".")[0] for path in (mirror / "_source-cache").rglob("*") if path.is_file()}
    assert {source.sha256 for source in found} == in_mirror
    assert {source.package.split("@")[0] for source in found} <= set(hello.lock.versions())


def test_a_mirror_is_made_from_what_is_listed(hello: Installable, place: Path) -> None:
    mirror = peers.SOURCES.need()
    repos = {"builtin": repository_folder("builtin", peers.PACKAGES.need())}

    mirrors = (f"file://{mirror}",)
    run_lister(spack(), planned(hello), hello, place / "mirror", repos=repos, mirrors=mirrors, log=place / "log")

    made = {path.name for path in (place / "mirror" / "_source-cache").rglob("*") if path.is_file()}
    assert made == {path.name for path in (mirror / "_source-cache").rglob("*") if path.is_file()}


def test_the_plan_of_an_image_knows_the_sizes_that_a_mirror_has(
    hello: Installable, place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = peers.SOURCES.need()
    spack_options = ["--spack", peers.SPACK.need(), "--repo", f"builtin={peers.PACKAGES.need()}"]
    answer = cli(
        *("build", "hello", "--system", late(hello), "-o", hello.folder, "--plan", "--mirror", mirror, "--json"),
        *spack_options,
    )

    found = json.loads(answer.stdout)
    assert answer.code == 0, answer.stderr
    sizes = {download["package"]: download["bytes"] for download in found["downloads"]}
    assert all(sizes.values())
    assert sum(sizes.values()) == sum(
        path.stat().st_size for path in (mirror / "_source-cache" / "archive").rglob("*") if path.is_file()
    )
