"""The order in which a lock's packages can be built, on small locks and on those that are committed."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from uenvtool.env.next_steps import build_image
from uenvtool.env.plan import build_order
from uenvtool.env.program import Spack
from uenvtool.knowledge.lock import Lock, Package, read_lock

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


def test_the_command_shows_the_order_without_spack(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = ("build", "pytorch-2.6", "--system", "clariden", "--plan")

    answer = cli(*words, "--json")
    told = cli(*words)

    found = json.loads(answer.stdout)
    assert answer.code == 0, answer.stderr
    assert found["packages"] == sum(len(wave) for wave in found["waves"]) > 200
    assert any(name.startswith("py-torch@2.6") for wave in found["waves"] for name in wave)
    assert found["chain"][0] == "compiler-wrapper@1.1.0"
    assert f"the critical path has {len(found['chain'])} packages, each waits for the one before it: " in told.stdout
    assert "Spack is not here: the downloads are not known" in told.stderr
    assert "uenvtool image build envs/pytorch-2.6/clariden-gh200" in told.stderr


def test_the_plan_tells_a_site_what_the_lock_takes(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are counted in the lock once more, by other means."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.chdir(ROOT)
    lock_file = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200" / "spack.lock"
    specs = json.loads(lock_file.read_text())["concrete_specs"]
    built = {key: spec for key, spec in specs.items() if "external" not in spec}

    @functools.cache
    def depth(key: str) -> int:
        needs = [need["hash"] for need in built[key].get("dependencies", [])]
        return 1 + max((depth(need) for need in needs if need in built), default=0)

    longest = max(map(depth, built))
    waves = Counter(map(depth, built))
    of_the_system = [spec for spec in specs.values() if "external" in spec and spec["name"] != "gcc"]
    externals = sorted(f"{spec['name']}@{spec['version']}" for spec in of_the_system)

    first, compiler, *lines = cli("build", "pytorch-2.6", "--system", "clariden", "--plan").stdout.splitlines()

    widest = max(waves.values())
    assert first == (
        f"{len(built)} packages to build; {len(externals)} of the system; at most {widest} can be built at once"
    )
    assert compiler == "before them gcc@13.3.0, with what it needs, which is resolved on the node and not counted"
    assert lines[0] == f"of the system: {', '.join(externals)}"
    assert lines[1].startswith(f"the critical path has {longest} packages, each waits for the one before it: ")
    assert lines[1].count(" > ") == longest - 1
    shared = sum(count > 1 for count in waves.values())
    assert lines[2] == (
        "cores: a gh200 node has 288; Spack builds one package at a time on a node, with at most 16 processes "
        f"unless --jobs says more; further nodes find work in {shared} of {longest} waves"
    )
    stores = f"{place}/cache/uenvtool/stores"
    assert re.search(rf"^disk: .*, by default in {stores}, which has \d+\.\d GB free here; --store names", lines[3])
    assert re.fullmatch("wave +packages +which can be built at once, when the waves before are", lines[5])
    assert [line.split()[:2] for line in lines[6:]] == [[str(wave), str(waves[wave])] for wave in sorted(waves)]


def test_the_plan_says_how_long_packages_took_before(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.chdir(ROOT)
    words = ("build", "hello", "--system", "clariden", "--plan")
    unknown = cli(*words)
    stores = place / "cache" / "uenvtool" / "stores"
    for name, took, cached in (("pigz", 90, False), ("zstd", 30, False), ("zlib-ng", 1, True), ("other", 99, False)):
        record = stores / "hello-1" / "linux-zen2" / f"{name}-1-abc" / ".spack" / "install_times.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"name": name, "total": took, "cache": cached}))
    record.write_text("damaged")

    known = cli(*words)

    assert "how long it takes is not known" in unknown.stderr
    assert "time: you built 2 of " in known.stdout
    assert "in 2.0 minutes, " in known.stdout


def test_the_plan_needs_no_network(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    spack = place / "spack" / "bin" / "spack"
    spack.parent.mkdir(parents=True)
    spack.write_text(
        '#!/bin/sh\ncase $1 in --version) echo 1.1.0;; *) echo "fatal: Could not resolve host"; exit 1;; esac\n'
    )
    spack.chmod(0o755)

    answer = cli("build", "hello", "--system", "clariden", "--plan", "--spack", place / "spack")

    assert answer.code == 0, answer.stderr
    assert "the downloads are not known: Spack could not fetch a package repository" in answer.stderr
    assert "critical path" in answer.stdout
    assert not (ROOT / "envs" / "hello" / "clariden-gh200" / ".uenvtool-concretize.log").exists()


def test_the_command_that_comes_next_has_the_spack_and_the_repositories_that_were_named(tmp_path: Path) -> None:
    spack = Spack(tmp_path / "my spack" / "bin" / "spack", "1.1.0", "--spack")

    command = build_image(Path("env"), "--mirror", "file:///m", spack=spack, repos={"alps": tmp_path})

    named = f"--spack '{tmp_path}/my spack' --repo alps={tmp_path}"
    assert command == f"uenvtool image build env {named} --mirror file:///m"
