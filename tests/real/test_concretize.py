"""Test that real Spack resolves the shipped recipes on every system with a committed environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.real.conftest import RealSpack
from uenvtool.env.plan import plan_environment
from uenvtool.env.table import Match, compared
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.lock import Lock, read_lock
from uenvtool.knowledge.system import load_system

pytestmark = [pytest.mark.real, pytest.mark.slow]


def lock_in(folder: Path) -> Lock:
    return read_lock(folder / "spack.lock", str(folder))


COMMITTED = sorted(path.parent.relative_to(ROOT / "envs") for path in ROOT.glob("envs/*/*/spack.lock"))


@pytest.mark.solve
@pytest.mark.parametrize("committed", COMMITTED, ids=str)
def test_a_recipe_that_ships_resolves_to_the_committed_versions(
    cli: Cli, real_spack: RealSpack, committed: Path
) -> None:
    recipe, (system, uarch) = committed.parent.name, committed.name.rsplit("-", 1)
    words = ("build", recipe, "--system", system, "--uarch", uarch, "-o", "env")

    answer = cli(*words, *real_spack.options_for(load_recipe(recipe)))

    assert answer.code == 0, answer.stderr
    assert lock_in(Path("env")).versions() == lock_in(ROOT / "envs" / committed).versions()


def test_the_committed_lock_for_rocm_is_of_one_rocm_and_without_cuda() -> None:
    folder = ROOT / "envs" / "pytorch-2.10-rocm" / "beverin-mi300"
    versions = lock_in(folder).versions()

    coupled = {"py-torch": "2.10.0", "py-torchvision": "0.25.0", "py-torchaudio": "2.10.0", "aws-ofi-nccl": "1.18.0"}
    rocm = dict.fromkeys(("hip", "rccl", "miopen-hip", "rocblas", "hsa-rocr-dev", "llvm-amdgpu"), "7.1.1")
    assert {name: versions[name] for name in (*coupled, *rocm)} == {n: [v] for n, v in (coupled | rocm).items()}
    assert not {"cuda", "cudnn", "nccl", "py-triton"} & set(versions)
    text = (folder / "spack.lock").read_text()
    assert '"amdgpu_target":["gfx942"]' in text.replace(" ", "").replace("\n", "")


def beside_the_published(committed: Path) -> list[Match]:
    """Return each row of the published table with the version in a committed environment (RECIPE/SYSTEM-UARCH)."""
    system, uarch = committed.name.rsplit("-", 1)
    environment = plan_environment(load_recipe(committed.parent.name), load_system(system), uarch)
    return compared(environment, lock_in(ROOT / "envs" / committed))


@pytest.mark.parametrize("committed", COMMITTED, ids=str)
def test_each_difference_from_the_published_uenv_has_a_reason(committed: Path) -> None:
    assert [match.row.name for match in beside_the_published(committed) if not match.same and not match.reason] == []


@pytest.mark.parametrize(
    ("name", "rows", "present", "same"),
    [("pytorch-2.6", 210, 208, 191), ("pytorch-2.9", 228, 215, 200)],
)
def test_a_recipe_is_the_published_uenv_but_for_differences_on_record(
    name: str, rows: int, present: int, same: int
) -> None:
    found = beside_the_published(Path(name, "clariden-gh200"))

    assert len(found) == rows
    assert sum(match.present for match in found) >= present
    assert sum(match.same for match in found) >= same


@pytest.mark.build
def test_a_clash_is_told_in_ten_lines(cli: Cli, real_spack: RealSpack, write: Write) -> None:
    write(
        "recipes/clash/recipe.yaml",
        SMALL.replace("home: clariden", "home: local")
        .replace("- zlib-ng\n", "- pigz ^zlib-ng@2.0.7\n")
        .replace("    - {spec: hdf5@1.14 +mpi, reason: files}\n", "")
        + "require: {zlib-ng: 2.2.4}\n",
    )

    answer = cli("build", "clash", *real_spack.options)

    told = answer.stderr[answer.stderr.index("error: Spack") : answer.stderr.index("hint: Spack's whole")]
    assert answer.code == 4
    assert len(told.splitlines()) <= 10
    assert "zlib-ng@2.0.7" in told
    assert "2.2.4" in told
    assert not Path("envs/clash/local-host/spack.lock").exists()
