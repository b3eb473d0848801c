"""The order in which a lock's packages can be built, on small locks and on those that are committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Answer
from uenvtool.commands.build.next_steps import build_image
from uenvtool.spack.build_order import build_order
from uenvtool.spack.lock import Lock, Package, read_lock
from uenvtool.spack.program import Spack

LOCKS = sorted(ROOT.glob("envs/*/*/spack.lock"))


def package(name: str, *needs: str, external: str = "") -> Package:
    return Package(name=name, version="1", hash=name, target="zen2", os="sles15", external=external, dependencies=needs)


def lock(*packages: Package) -> Lock:
    return Lock((), packages, "1.1.0")


def names(packages: object) -> list[str]:
    return [each.name for each in packages]  # type: ignore[attr-defined]


def test_a_wave_needs_only_what_earlier_waves_built_and_what_the_system_has() -> None:
    found = build_order(
        lock(
            package("top", "left", "right"),
            package("left", "base"),
            package("right", "gcc"),
            package("base"),
            package("gcc", external="/usr"),
        )
    )

    assert list(map(names, found.waves)) == [["base", "right"], ["left"], ["top"]]
    assert names(found.chain) == ["base", "left", "top"]
    assert names(found.external) == ["gcc"]
    assert found.count == 4


def test_nothing_to_build_has_no_order() -> None:
    found = build_order(lock(package("gcc", external="/usr")))

    assert (list(found.waves), list(found.chain), found.count) == ([], [], 0)


def test_packages_that_need_each_other_have_no_order() -> None:
    with pytest.raises(ValueError, match="need each other"):
        build_order(lock(package("a", "b"), package("b", "a")))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_in_each_committed_lock_every_package_comes_after_what_it_needs(path: Path) -> None:
    found = build_order(read_lock(path, str(path)))

    wave_of = {package.hash: number for number, wave in enumerate(found.waves) for package in wave}
    for wave in found.waves:
        for package in wave:
            assert all(wave_of[need] < wave_of[package.hash] for need in package.dependencies if need in wave_of)
    for before, after in zip(found.chain, found.chain[1:], strict=False):
        assert before.hash in after.dependencies
    assert len(found.chain) == len(found.waves)


def test_the_command_shows_the_order_without_spack(cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = ("build", "pytorch-2.6", "--system", "clariden", "--plan")

    answer = cli(*words, "--json")
    told = cli(*words)

    found = json.loads(answer.stdout)
    assert answer.code == 0, answer.stderr
    assert found["packages"] == sum(len(wave) for wave in found["waves"]) > 200
    assert any(name.startswith("py-torch@2.6") for wave in found["waves"] for name in wave)
    assert found["chain"][0] == "compiler-wrapper@1.1.0"
    assert f"the longest chain has {len(found['chain'])}: compiler-wrapper@1.1.0 > " in told.stdout
    assert "Spack is not here: the downloads are not known" in told.stderr
    assert "uenvtool image build envs/pytorch-2.6/clariden-gh200" in told.stderr


def test_the_command_that_comes_next_has_the_spack_and_the_repositories_that_were_named(tmp_path: Path) -> None:
    spack = Spack(tmp_path / "my spack" / "bin" / "spack", "1.1.0", "--spack")

    command = build_image(Path("env"), "--mirror", "file:///m", spack=spack, repos={"alps": tmp_path})

    named = f"--spack '{tmp_path}/my spack' --repo alps={tmp_path}"
    assert command == f"uenvtool image build env {named} --mirror file:///m"
