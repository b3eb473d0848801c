"""Test that scripts, lists and settings of an environment do not contain the path of its build directory."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import skip_without
from tests.support.programs import program
from uenvtool.image.tree import walk
from uenvtool.venv.image import left_out, rewritten

SITE = "lib/python3.12/site-packages"


def environment(folder: Path) -> Path:
    files = {
        "pyvenv.cfg": f"home = /usr/bin\ncommand = python -m venv {folder}\n",
        "bin/activate": f"VIRTUAL_ENV={folder}\n",
        "bin/tool": f"#!{folder}/bin/python3\nimport sys\nprint(sys.argv[1:])\n",
        "bin/long": f"#!/bin/sh\n'''exec' {folder}/bin/python3 \"$0\" \"$@\"\n' '''\nimport sys\nprint(sys.argv[1:])\n",
        "bin/other": "#!/usr/bin/python3\n",
        f"{SITE}/tool.dist-info/RECORD": "tool.py,sha256=abc,1\n../../../bin/tool,sha256=old,9\n"
        "tool.dist-info/uv_cache.json,sha256=x,2\ntool.dist-info/RECORD,,\n",
        f"{SITE}/tool.dist-info/uv_cache.json": '{"timestamp": 1}',
        f"{SITE}/tool.dist-info/direct_url.json": f'{{"url": "file://{folder}/src"}}',
        f"{SITE}/near.pth": f"{folder}/src\n{folder}-other/src\nimport sys; sys.path.append('{folder}')\n",
        f"{SITE}/tool.py": f"HERE = '{folder}'\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def moved(folder: Path) -> dict[str, str]:
    found = rewritten(folder, walk(folder, left_out=left_out(folder)), "/user-tools")
    return {os.fsdecode(name): text.decode() for name, text in found.items()}


def test_what_names_the_folder_names_the_mount_point(tmp_path: Path) -> None:
    folder = environment(tmp_path / "built here")

    found = moved(folder)

    assert found["pyvenv.cfg"].endswith("-m venv /user-tools\n")
    assert found["bin/activate"] == "VIRTUAL_ENV=/user-tools\n"
    assert found[f"{SITE}/tool.dist-info/direct_url.json"] == '{"url": "file:///user-tools/src"}'
    assert found[f"{SITE}/near.pth"] == (
        f"/user-tools/src\n{folder}-other/src\nimport sys; sys.path.append('/user-tools')\n"
    )
    assert "bin/other" not in found
    assert f"{SITE}/tool.py" not in found


def test_commands_find_the_python_beside_them(tmp_path: Path) -> None:
    folder = environment(tmp_path / "built")

    found = moved(folder)

    folder = program(tmp_path / "a place with 'quotes'" / "bin/python", 'shift\necho "ours: $*"').parent
    for name in ("tool", "long"):
        command = program(folder / name, found[f"bin/{name}"])
        assert subprocess.run([command, "x y"], capture_output=True, text=True, check=True).stdout == "ours: x y\n"


def test_lists_of_installed_files_agree_with_what_was_rewritten(tmp_path: Path) -> None:
    folder = environment(tmp_path / "built")

    found = moved(folder)

    text = found["bin/tool"].encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    assert found[f"{SITE}/tool.dist-info/RECORD"].splitlines() == [
        "tool.py,sha256=abc,1",
        f"../../../bin/tool,sha256={digest},{len(text)}",
        "tool.dist-info/RECORD,,",
    ]


def test_notes_of_the_installer_and_of_an_earlier_image_stay_behind(tmp_path: Path) -> None:
    folder = environment(tmp_path / "built")
    (folder / "meta" / "extra").mkdir(parents=True)
    for name in ("meta/env.json", "meta/extra/packed.json", ".lock"):
        (folder / name).write_text("{}")

    names = walk(folder, left_out=left_out(folder))

    assert not any(name.startswith((b"meta", b".lock")) or name.endswith(b"uv_cache.json") for name in names)


@pytest.mark.parametrize("python", ["/usr/bin/python3", sys.executable])
def test_a_folder_whose_name_its_python_quotes_gives_the_same_files(tmp_path: Path, python: str) -> None:
    """Debian's Python 3.11, and every Python from 3.12.8 and 3.13.1 on, quote it in bin/activate if they must."""
    if not Path(python).exists():
        skip_without(python, "apt-get install python3-venv")
    found = []
    for name in ("plain", "with space", "it's"):
        folder = tmp_path / name / "env"
        made = subprocess.run([python, "-m", "venv", "--without-pip", folder], capture_output=True, check=False)
        if made.returncode != 0:
            skip_without("venv", "apt-get install python3-venv")
        found.append({name: text for name, text in moved(folder).items() if not name.endswith("Activate.ps1")})

    assert found[0]["bin/activate"].count("/user-tools") > 0
    assert found[0] == found[1] == found[2]
