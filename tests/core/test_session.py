"""Test reading the loaded environment from the variables of the uenv client, container runtimes and schedulers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from uenvtool.core.session import CurrentJob, container_name, current_job, in_container, loaded_views, mounted_images


def test_views_are_read_as_the_uenv_client_writes_them(tmp_path: Path) -> None:
    meta = tmp_path / "mount" / "meta"
    meta.mkdir(parents=True)
    (meta / "env.json").write_text(json.dumps({"views": {"special": {"root": "/elsewhere/view"}}}))
    environ = {
        "UENV_VIEW": f"{tmp_path}/mount:pytorch:special,/user-tools:tools:venv,junk",
        "UENV_MOUNT_LIST": f"/images/p.squashfs:{tmp_path}/mount,/images/t.squashfs:/user-tools",
    }

    found = loaded_views(environ)

    assert [(view.uenv, view.name, view.root, view.image) for view in found] == [
        ("pytorch", "special", "/elsewhere/view", "/images/p.squashfs"),
        ("tools", "venv", "/user-tools/env/venv", "/images/t.squashfs"),
    ]


@pytest.mark.parametrize("text", ["", "not json", "{}", '{"views": {"v": {"root": 3}}}', '{"views": []}'])
def test_a_view_without_a_root_on_record_lies_where_views_usually_lie(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "env.json").write_text(text)

    (view,) = loaded_views({"UENV_VIEW": f"{tmp_path}:name:v"})

    assert (view.root, view.image) == (f"{tmp_path}/env/v", "")


def test_an_image_may_have_a_colon_in_its_path() -> None:
    assert mounted_images({"UENV_MOUNT_LIST": "/a:b.squashfs:/mnt"}) == {"/mnt": "/a:b.squashfs"}


def test_a_container_is_known_by_its_variables_and_files(tmp_path: Path) -> None:
    environ = {"UENVTOOL_ROOT": str(tmp_path)}

    assert not in_container(environ)
    assert in_container({**environ, "APPTAINER_CONTAINER": "/x.sif"})
    (tmp_path / ".dockerenv").touch()
    assert in_container(environ)


@pytest.mark.parametrize(
    ("root", "expected"),
    {
        "1 0 254:0 / / rw,relatime - ext4 /dev/vda rw": False,  # a virtual machine with a disk made from an image
        "1 0 8:1 / / rw shared:1 - btrfs /dev/sda1 rw": False,
        "600 589 0:52 / / rw,relatime master:205 - overlay overlay rw,lowerdir=/l": True,  # Docker's usual
        "600 589 8:1 /var/lib/docker/vfs/dir/77 / rw - ext4 /dev/sda1 rw": True,  # its driver without an overlay
        "600 589 0:41 /btrfs/subvolumes/77 / rw - btrfs /dev/sda1 rw": True,
        "600 589 7:0 / / ro - squashfs /dev/loop0 ro": True,
    }.items(),
)
def test_a_virtual_machine_made_from_a_containers_image_is_none(tmp_path: Path, root: str, expected: bool) -> None:
    (tmp_path / ".dockerenv").touch()
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"22 1 0:21 / /proc rw - proc proc rw\n{root}\n")
    environ = {"UENVTOOL_ROOT": str(tmp_path)}

    assert in_container(environ) == expected
    assert in_container({**environ, "APPTAINER_CONTAINER": "/x.sif"})


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"NVIDIA_PYTORCH_VERSION": "25.06"}, "nvcr.io/nvidia/pytorch:25.06-py3"),
        ({"APPTAINER_CONTAINER": "/x.sif"}, "/x.sif"),
        ({}, ""),
    ],
)
def test_a_container_has_the_name_that_its_image_or_runtime_gives(environ: dict[str, str], name: str) -> None:
    assert container_name(environ) == name


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"SLURM_JOB_ID": "17"}, CurrentJob(scheduler="slurm", id="17")),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "pod-0"}, CurrentJob(scheduler="kubernetes", id="pod-0")),
        ({}, None),
    ],
)
def test_a_job_is_known_by_what_its_scheduler_sets(environ: dict[str, str], job: CurrentJob | None) -> None:
    assert current_job(environ) == job
