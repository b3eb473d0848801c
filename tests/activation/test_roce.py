"""The RoCE GID index, found below a root that stands for /sys, by the scripts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shells import ALL, Ran, run, script

MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
POD = {"PET_NNODES": "2", "RUNAI_NUM_OF_GPUS": "8", "RANK": "0"}


def rdma_device(sysfs: Path, device: str, gids: dict[int, tuple[str | None, str]], port: int = 1) -> Path:
    """A device as /sys below a root shows it: index to GID (None: an IPv4-mapped one) and type."""
    folder = sysfs / "sys" / "class" / "infiniband" / device / "ports" / str(port)
    (folder / "gids").mkdir(parents=True)
    (folder / "gid_attrs" / "types").mkdir(parents=True)
    for index, (gid, kind) in gids.items():
        (folder / "gids" / str(index)).write_text(f"{gid or MAPPED}\n")
        (folder / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
    return folder


def activated(shell: str, sysfs: Path, **env: str) -> Ran:
    """Source rcp's script with that root for /."""
    lines = f"source {script('rcp')}\nSNAP\n"
    return run(shell, lines, {**POD, "UENVTOOL_ROOT": str(sysfs), **env})


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("index", [0, 7, 9, 10, 113])
def test_the_gid_that_is_both_is_taken(shell: str, index: int, tmp_path: Path) -> None:
    others = {200: ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"), 201: (None, "IB/RoCE v1")}
    rdma_device(tmp_path, "mlx5_bond_0", {index: (None, "RoCE v2"), **others})

    ran = activated(shell, tmp_path)

    assert (ran.env["NCCL_IB_GID_INDEX"], ran.env["NCCL_IB_HCA"], ran.stderr) == (str(index), "mlx5_bond_", "")


@pytest.mark.parametrize("shell", ALL)
def test_the_lowest_of_a_port_is_taken(shell: str, tmp_path: Path) -> None:
    rdma_device(tmp_path, "mlx5_bond_0", dict.fromkeys((11, 3, 5), (None, "RoCE v2")))

    assert activated(shell, tmp_path).env["NCCL_IB_GID_INDEX"] == "3"


@pytest.mark.parametrize("shell", ALL)
def test_devices_that_differ_are_told_and_the_users_choice_of_one_counts(shell: str, tmp_path: Path) -> None:
    rdma_device(tmp_path, "mlx5_0", {0: ("fe80", "RoCE v2")})
    rdma_device(tmp_path, "mlx5_bond_0", {3: (None, "RoCE v2")})
    rdma_device(tmp_path, "mlx5_bond_1", {5: (None, "RoCE v2")}, port=2)

    first = activated(shell, tmp_path)
    chosen = activated(shell, tmp_path, NCCL_IB_HCA="=mlx5_bond_1:2")

    assert first.env["NCCL_IB_GID_INDEX"] == "3"
    assert len(first.stderr.splitlines()) == 1
    assert "mlx5_bond_1 (5)" in first.stderr
    assert (chosen.env["NCCL_IB_GID_INDEX"], chosen.env["NCCL_IB_HCA"]) == ("5", "=mlx5_bond_1:2")
    assert chosen.stderr == ""


@pytest.mark.parametrize("shell", ALL)
def test_none_found_is_told_on_each_pod_once_and_the_devices_are_still_named(shell: str, tmp_path: Path) -> None:
    rdma_device(tmp_path, "mlx5_0", {0: ("fe80", "RoCE v2"), 1: (None, "IB/RoCE v1")})

    for root in (tmp_path, tmp_path / "nowhere"):
        ran = activated(shell, root)
        other_pod = activated(shell, root, RANK="1")
        other_process = activated(shell, root, LOCAL_RANK="1")
        quiet = activated(shell, root, UENVTOOL_QUIET="1")

        assert "NCCL_IB_GID_INDEX" not in ran.env
        assert ran.env["NCCL_IB_HCA"] == "mlx5_bond_"
        assert len(ran.stderr.splitlines()) == 1
        assert "no GID here is RoCE v2 and IPv4-mapped" in ran.stderr
        assert other_pod.stderr == ran.stderr
        assert other_process.stderr == quiet.stderr == ""


@pytest.mark.parametrize("shell", ALL)
def test_a_new_nccl_finds_the_index_itself(shell: str, tmp_path: Path) -> None:
    rdma_device(tmp_path, "mlx5_bond_0", {7: (None, "RoCE v2")})

    new = activated(shell, tmp_path, NCCL_VERSION="2.26.2")
    old = activated(shell, tmp_path / "nowhere", NCCL_VERSION="2.25.1")

    assert "NCCL_IB_GID_INDEX" not in new.env
    assert new.stderr == ""
    assert "NCCL_IB_GID_INDEX" in old.stderr


@pytest.mark.parametrize("shell", ALL)
def test_nothing_is_said_where_the_user_has_set_the_index(shell: str, tmp_path: Path) -> None:
    ran = activated(shell, tmp_path, NCCL_IB_GID_INDEX="3")

    assert (ran.env["NCCL_IB_GID_INDEX"], ran.env["NCCL_IB_HCA"], ran.stderr) == ("3", "mlx5_bond_", "")


@pytest.mark.parametrize("shell", ALL)
def test_what_cannot_be_read_is_passed_over(shell: str, tmp_path: Path) -> None:
    folder = rdma_device(tmp_path, "mlx5_bond_0", {2: (None, "RoCE v2"), 4: (None, "RoCE v2"), 6: (None, "RoCE v2")})
    (folder / "gids" / "1").mkdir()  # a folder cannot be read, not even by root
    (folder / "gid_attrs" / "types" / "2").unlink()
    (folder / "gid_attrs" / "types" / "4").unlink()
    (folder / "gid_attrs" / "types" / "4").mkdir()
    (folder / "gids" / "$(touch ran)").write_text(MAPPED)
    (folder / "gid_attrs" / "types" / "$(touch ran)").write_text("RoCE v2")

    ran = activated(shell, tmp_path)

    assert ran.env["NCCL_IB_GID_INDEX"] == "6"
    assert ran.stderr == ""
