"""Images that say of which inputs they are made, packed in a moment: nothing is built."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.needs import need
from tests.support.programs import program
from tests.support.project import ROOT
from uenvtool.env.installable import read_installable
from uenvtool.image.cache import inputs_hash
from uenvtool.image.metadata import ENV, PACKED, packed_json

ENVIRONMENT = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200"
NAME = "pytorch-2.6"


def inputs() -> str:
    """The hash of the inputs of ENVIRONMENT."""
    return inputs_hash([read_installable(ENVIRONMENT)])


def packed_image(path: Path, made_of: str, more: Mapping[str, str] | None = None) -> Path:
    """An image that says that it is made of these inputs."""
    tree = path.parent / f"{path.name}.tree"
    texts = {ENV: '{"name": "x"}\n', PACKED: packed_json("/user-environment", kind="environment", inputs=made_of)}
    for name, text in {**texts, **(more or {})}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "content").write_bytes(os.urandom(100_000))
    words = [need("mksquashfs"), tree, path, "-noappend", "-quiet", "-no-progress"]
    subprocess.run(words, check=True, capture_output=True)
    return path


def spack_that_only_has_a_version(folder: Path) -> Path:
    """A Spack that fails whatever it is asked but its version: where it runs nothing is spared."""
    code = "import sys\nprint('1.1.0') if '--version' in sys.argv else sys.exit(7)\n"
    program(folder / "bin" / "spack", f"#!{sys.executable}\n{code}")
    return folder
