"""`uenvtool venv` in a real container: the image has no uenvtool, the folder with it is mounted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.images import Builder, debian_image
from tests.support.overlays import wheel

pytestmark = [pytest.mark.real, pytest.mark.slow]
SRUN = """\
#!/bin/bash
# Starts a command in a container, as srun --environment does, with buildah.
while [[ $1 == --* ]]; do shift; done
exec {words} run --isolation=chroot {options} {container} -- "$@"
"""


def test_an_overlay_is_made_on_the_containers_python_and_keeps_its_torch(
    builder: Builder, no_base: None, tmp_path: Path, place: Path
) -> None:
    image = debian_image(builder, wheel(tmp_path / "base", "torch", "2.8.0a0+nv25.6"))
    wheels = tmp_path / "wheels"
    wheel(wheels, "metatrain", "2025.1", requires=["torch>=2.1"])
    wheel(wheels, "torch", "2.9.0")
    mounts = [str(tmp_path), sys.base_prefix, str(Path(sys.prefix).resolve()), str(ROOT)]
    variables = {"container": "ce", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    made = subprocess.run([*builder.words, "from", image], capture_output=True, text=True, check=True).stdout.strip()
    options = [f"--volume={path}:{path}" for path in mounts]
    options += [f"--env={name}={value}" for name, value in variables.items()]
    program = place / "bin" / "srun"
    program.parent.mkdir()
    program.write_text(SRUN.format(words=" ".join(builder.words), options=" ".join(options), container=made))
    program.chmod(0o755)

    command = [program, "--environment=mine.toml", "--pty"]
    command += [sys.executable, "-m", "uenvtool", "venv", place / "env", "metatrain"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    code = "import metatrain, torch; print(metatrain.__file__, torch.__version__)"
    ran = subprocess.run([program, place / "env/bin/python", "-c", code], capture_output=True, text=True, check=False)
    where, torch = ran.stdout.split()
    assert where.startswith(f"{place}/env/lib/"), ran.stderr
    assert torch == "2.8.0a0+nv25.6"
    subprocess.run([*builder.words, "rm", made], capture_output=True, check=True)
