"""Test images of the real squashfs-tools: reproducible, mounted, read back and never incomplete."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.disks import make_read_only, mounted, small_disk
from tests.support.kills import command
from tests.support.needs import needs
from tests.support.overlays import pack_overlay as pack
from tests.support.programs import program
from tests.support.tracing import traced
from tests.support.trees import snapshot
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files.places import WORK_SUFFIX
from uenvtool.image import bytecode, read
from uenvtool.venv.image import MOUNT
from uenvtool.venv.info import image_data

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
RECORD = {
    "format": 1,
    "base": {"name": "pytorch/v2.6.0", "python": "/base/bin/python", "version": "3.12.1", "folders": []},
    "requests": [],
    "overrides": [],
    "packages": [{"name": "tool", "version": "2.0", "how": "installed", "asked_by": []}],
}


def environment(folder: Path) -> Path:
    """Returns a virtual environment of another tool with a package and without bytecode."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3.*/site-packages"))
    modules = {
        "tool/__init__.py": "from tool.inner import where\n",
        "tool/inner.py": "def where():\n    return __file__, where.__code__.co_filename\n",
        "tool/template.py": "{{ not }} python\n",
        "tool/large.bin": "0123456789abcdef" * 100_000,
        "tool/copy.bin": "0123456789abcdef" * 100_000,
        "tool/empty": "",
    }
    for name, text in modules.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text)
    (folder / "bin" / "tool").write_text(f"#!{folder}/bin/python\nimport tool\nprint(*tool.where())\n")
    (folder / "bin" / "tool").chmod(0o755)
    (folder / ".uenvtool").mkdir()
    (folder / ".uenvtool" / "uenvtool.json").write_text(json.dumps(RECORD))
    (folder / ".uenvtool" / "pylock.toml").write_text('lock-version = "1.0"\n')
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def strays(folder: Path) -> list[str]:
    """Return the files that a run has left next to its target."""
    return [path.name for path in folder.iterdir() if path.name.endswith(WORK_SUFFIX)]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    return environment(tmp_path / "built" / "myenv")


@pytest.fixture
def image(venv: Path, tmp_path: Path) -> Path:
    return pack(venv, tmp_path / "myenv.squashfs").path


@pytest.mark.parametrize("place", ["mnt", "another place/with 'quotes'"])
def test_python_runs_from_the_image_wherever_it_is_mounted(image: Path, tmp_path: Path, place: str) -> None:
    with mounted(image, tmp_path / place) as mount:
        words = [mount / "bin" / "python", "-c", "import sys, tool; print(sys.prefix); print(*tool.where(), sep='\\n')"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        command = subprocess.run([mount / "bin" / "tool"], capture_output=True, text=True, check=True).stdout

    assert said[0] == str(mount)
    assert said[1] == said[2]
    assert said[1].startswith(str(mount))
    assert command.split()[0].startswith(str(mount).split()[0])


def test_an_import_reads_no_source_and_compiles_nothing(image: Path, tmp_path: Path) -> None:
    with mounted(image, tmp_path / "mnt") as mount:
        calls = traced([mount / "bin" / "python", "-c", "import tool"], "open,openat,stat,newfstatat")

    opened = [line for line in calls if re.search(r"\bopen(at)?\(", line) and "ENOENT" not in line]
    assert any("tool/__pycache__/inner." in line for line in opened)
    assert not any("tool/inner.py" in line for line in opened)


def test_the_image_is_a_uenv_with_its_records_and_says_what_it_is(image: Path) -> None:
    texts = read.read_texts(image, ["meta/env.json", "meta/extra/pylock.toml", "meta/extra/uenvtool.json"])
    said = image_data(image)

    env = json.loads(texts["meta/env.json"])
    assert (env["name"], env["mount"], list(env["views"])) == ("myenv", MOUNT, ["venv"])
    assert texts["meta/extra/pylock.toml"] == 'lock-version = "1.0"\n'
    assert json.loads(texts["meta/extra/uenvtool.json"]) == RECORD
    assert (said["base"]["name"], said["mount"], said["name"]) == ("pytorch/v2.6.0", MOUNT, "myenv")
    assert (said["bytes"], said["packages"]) == (image.stat().st_size, RECORD["packages"])
    assert said["settings"]["bytecode"] == "unchecked-hash"


def test_the_same_content_gives_the_same_bytes(venv: Path, image: Path, tmp_path: Path) -> None:
    """The runs differ in directory, time, umask, existing bytecode and number of workers."""
    other = environment(tmp_path / "somewhere else" / "myenv")
    bytecode.compile_tree(other / "bin" / "python", other)
    for path in other.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700 | stat.S_IRUSR)
            os.utime(path, (1, 1) if path.is_dir() or path.suffix != ".py" else None)
    old = os.umask(0o077)
    try:
        again = pack(other, tmp_path / "other" / "myenv.squashfs")
    finally:
        os.umask(old)

    assert again.sha256 == sha256(image) == sha256(again.path)
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600


def test_every_time_is_the_epoch_that_is_asked_for(venv: Path, tmp_path: Path) -> None:
    made = pack(venv, tmp_path / "a.squashfs", epoch=1_700_000_000)
    head = read.superblock(made.path)

    listing = subprocess.run(
        ["unsquashfs", "-lls", made.path], capture_output=True, text=True, check=True, env={**os.environ, "TZ": "UTC"}
    ).stdout

    assert head is not None
    assert head.time == 1_700_000_000
    lines = [line for line in listing.splitlines() if "squashfs-root" in line]
    assert len(lines) > 20
    assert {line.split("squashfs-root")[0].split()[-2] for line in lines} == {"2023-11-14"}
    assert {line.split()[1] for line in lines} == {"root/root"}


def test_nothing_in_the_image_names_the_build_folder(image: Path, venv: Path, tmp_path: Path) -> None:
    copy = tmp_path / "raw"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", copy, image], check=True, capture_output=True)

    naming = [path for path in copy.rglob("*") if path.is_file() and os.fsencode(venv) in path.read_bytes()]

    assert naming == []


def test_what_the_tool_did_not_pack_is_not_overwritten_and_its_own_image_is(
    image: Path, venv: Path, tmp_path: Path
) -> None:
    before = sha256(image)
    (tmp_path / "text.squashfs").write_text("my notes")
    (tmp_path / "empty.squashfs").touch()
    subprocess.run(["mksquashfs", venv, tmp_path / "foreign.squashfs", "-quiet", "-no-progress"], check=True)
    (tmp_path / "link.squashfs").symlink_to("text.squashfs")
    (tmp_path / "folder.squashfs").mkdir()
    theirs = snapshot(tmp_path)

    for name in ("text", "empty", "foreign", "link", "folder"):
        with pytest.raises(BadInput, match=r"not an image that uenvtool packed|is not a file"):
            pack(venv, tmp_path / f"{name}.squashfs")
    assert snapshot(tmp_path) == theirs

    (venv / "more").write_text("more")
    assert pack(venv, image).sha256 == sha256(image) != before


@pytest.mark.parametrize("mount", ["user-tools", "/", "/a/", "/a/../b", "/a:b", "/a,b", "/${@HOME@}", "/a\nb"])
def test_a_mount_point_that_cannot_be_one_is_refused(venv: Path, tmp_path: Path, mount: str) -> None:
    with pytest.raises(BadInput, match="mount point"):
        pack(venv, tmp_path / "a.squashfs", mount=mount)


def test_only_environments_are_packed_and_not_into_themselves(venv: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a virtual environment"):
        pack(tmp_path, tmp_path / "a.squashfs")
    with pytest.raises(BadInput, match="is inside the environment to pack"):
        pack(venv, venv / "a.squashfs")


def test_an_image_that_is_not_the_folder_never_gets_its_name(
    venv: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory changes after mksquashfs has read it, so the comparison must fail."""
    before = sha256(image)
    changed = next(venv.glob("lib/python3.*/site-packages/tool/large.bin"))
    packing = f'{shutil.which("mksquashfs")} "$@" && sed -i s/f0123/F0123/ {changed}'
    asked = f'[ $# -gt 3 ] || exec {shutil.which("mksquashfs")} "$@"'
    program(tmp_path / "programs" / "mksquashfs", f"{asked}\n{packing}")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")

    with pytest.raises(ToolFailed, match="differs from the packed files"):
        pack(venv, image)

    assert sha256(image) == before
    assert strays(image.parent) == []


def test_a_full_or_read_only_disk_leaves_the_old_image(venv: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "600k") as disk:
        old = pack(venv, disk / "myenv.squashfs").sha256
        (venv / "more").write_bytes(random.Random(1).randbytes(2_000_000))

        with pytest.raises(ToolFailed, match=r"(?i)space|write"):
            pack(venv, disk / "myenv.squashfs")
        assert (sha256(disk / "myenv.squashfs"), strays(disk)) == (old, [])

        make_read_only(disk)
        with pytest.raises(ToolFailed, match=r"(?i)read-only"):
            pack(venv, disk / "myenv.squashfs")
        assert sha256(disk / "myenv.squashfs") == old


PACK = """
from pathlib import Path
from uenvtool.core import files
from uenvtool.venv.image import packed
folder, image = map(Path, sys.argv[1:])
with packed(folder, image, on_note=lambda text: None) as new:
    files.publish([files.Replacement(new=new.path, target=image.absolute())])
"""


def test_a_run_that_is_killed_while_mksquashfs_writes_takes_it_along(venv: Path, image: Path) -> None:
    old = sha256(image)
    (venv / "more").write_bytes(random.Random(2).randbytes(30_000_000))

    running = subprocess.Popen(command(venv, image, code=PACK), start_new_session=True)
    while not any(path.stat().st_size for path in image.parent.glob(f"*{WORK_SUFFIX}/*")):
        assert running.poll() is None
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    assert sha256(image) == old
    time.sleep(0.2)
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    pack(venv, image)
    assert strays(image.parent) == []
