"""`doctor --stack`: which library torch uses, where it is from, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import install, wheel
from tests.venv.test_torch_abi import library


def listed(cli: Cli) -> dict[str, list[dict[str, str]]]:
    answer = cli("doctor", "--stack", "--json")
    assert answer.code == 0, answer.stderr
    found: dict[str, list[dict[str, str]]] = {}
    for row in json.loads(answer.stdout):
        found.setdefault(row["library"], []).append(row)
    return found


@pytest.mark.parametrize(("form", "origin"), [("--disable-new-dtags", "wheel"), ("--enable-new-dtags", "host")])
def test_nccl_of_the_wheel_or_of_the_host_is_used_as_the_loader_decides(
    cli: Cli, loaded: Loaded, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch, form: str, origin: str
) -> None:
    """A RPATH comes before LD_LIBRARY_PATH, and a RUNPATH after it (ld.so(8))."""
    site = loaded("pythonpath").site
    install(site, wheel(place / "new", "torch", "2.9.1"), wheel(place / "new", "nvidia-nccl-cu12", "2.27.5"))
    own = library(site / "nvidia/nccl/lib/libnccl.so.2", "int nccl;")
    (place / "host").mkdir()
    library(place / "host/libnccl.so.2.26.3", "int nccl;")
    (place / "host/libnccl.so.2").symlink_to("libnccl.so.2.26.3")
    run_path = ("-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib", f"-Wl,{form}")
    library(site / "torch/lib/libtorch_cuda.so", "int torch;", own, *run_path)
    (site / "torch/version.py").write_text("cuda: Optional[str] = '12.8'\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "host"))

    used, other = listed(cli)["NCCL"]

    assert (used["origin"], other["why"]) == (origin, "not used")
    assert {used["version"], other["version"]} == {"2.27.5", "2.26.3"}
    assert used["built_against"] == "libnccl.so.2"
    why = {"wheel": "RPATH of libtorch_cuda.so", "host": "LD_LIBRARY_PATH"}
    assert used["why"] == why[origin]


def test_a_plugin_brings_its_libfabric_and_names_its_version(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = library(place / "opt/libfabric/1.22.0/lib/libfabric.so.1", "int fabric;")
    library(place / "plugin/libnccl-net.so", "int plugin;", fabric, f"-Wl,-rpath,{fabric.parent}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "plugin"))

    found = listed(cli)

    assert [row["path"] for row in found["NCCL plugin"]] == [str(place / "plugin/libnccl-net.so")]
    assert (found["libfabric"][0]["version"], found["libfabric"][0]["built_against"]) == ("1.22.0", "libfabric.so.1")
    assert found["libfabric"][0]["why"] == "RUNPATH of libnccl-net.so"


def test_a_preloaded_library_is_used(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preloaded = library(place / "mine/libnccl.so.2", "int nccl;")
    monkeypatch.setenv("LD_PRELOAD", str(preloaded))

    answer = cli("doctor", "--stack")

    assert "LD_PRELOAD" in answer.stdout
    assert "not found: NCCL plugin" in answer.stderr


def test_a_preloaded_library_is_not_another_one_whose_name_begins_with_the_same_letters(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("libnccl-net.so", "libcudart.so.12", "libmpi_gtl_cuda.so.0", "libmpi.so.12")
    files = [library(place / "mine" / name, "int none;") for name in names]
    monkeypatch.setenv("LD_PRELOAD", ":".join(map(str, files)))

    used = {name: rows[0]["path"] for name, rows in listed(cli).items() if rows[0]["why"] == "LD_PRELOAD"}

    assert used == dict(
        zip(("NCCL plugin", "CUDA runtime", "MPI"), map(str, (files[0], files[1], files[3])), strict=True)
    )


def test_a_preloaded_library_is_the_file_that_the_loader_finds(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = library(place / "mine/libnccl.so.2", "int nccl;")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(found.parent))
    monkeypatch.setenv("LD_PRELOAD", "/absent/libnccl.so.2 libnccl.so.2")

    (row,) = listed(cli)["NCCL"]

    assert (row["path"], row["why"]) == (str(found), "LD_PRELOAD")
