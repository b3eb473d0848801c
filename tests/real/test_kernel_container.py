"""A notebook runs in an overlay that was made in a container: in it, as a hub starts it, and the same words beside it.

buildah stands in for the Container Engine and, by a program of that name, for Apptainer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.real.test_kernel import NOTEBOOK
from tests.support.images import Builder, debian_image
from tests.support.overlays import wheel

pytestmark = [pytest.mark.real, pytest.mark.slow]
pytest.importorskip("nbclient", reason="no nbclient: pip install nbclient ipykernel")
ENGINE = '#!/bin/bash\nexec {words} run --isolation=chroot {options} {container} -- "$@"\n'
APPTAINER = """\
#!/bin/bash
# apptainer exec --nv -B FOLDER IMAGE COMMAND...
echo "$*" >{log}
[[ "$1 $2 $3 $5" == "exec --nv -B docker://nvcr.io/nvidia/pytorch:25.06-py3" && -d $4 ]] || exit 9
shift 5
exec {engine} "$@"
"""
CELL = (
    "import tool, torch, sys, os; print(tool.__version__, torch.__version__, sys.prefix == os.environ['VIRTUAL_ENV'])"
)


def test_a_kernel_of_a_container_starts_beside_it_and_in_it(
    builder: Builder, no_base: None, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = debian_image(builder, wheel(tmp_path / "base", "torch", "2.8.0a0+nv25.6"))
    wheels = tmp_path / "wheels"
    wheel(wheels, "tool", "2.0", requires=["torch>=2.1"])
    version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout
    words = [sys.executable, "-m", "pip", "download", "-q", "-d", wheels, "--only-binary=:all:", "--python-version"]
    with monkeypatch.context() as online:
        online.delenv("PIP_NO_INDEX", raising=False)
        if subprocess.run([*words, version.split()[1], "ipykernel"], check=False).returncode != 0:
            pytest.skip("no index has ipykernel here")
    container = subprocess.run([*builder.words, "from", image], capture_output=True, text=True, check=True).stdout
    mounts = [str(tmp_path), sys.base_prefix, str(Path(sys.prefix).resolve()), str(ROOT)]
    env = {"NVIDIA_PYTORCH_VERSION": "25.06", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    options = ["--network=host", f"--workingdir={place}", *(f"--volume={path}:{path}" for path in mounts)]
    options += [f"--env={name}={env[name]}" for name in env]
    programs = place / "bin"
    programs.mkdir()
    engine, log = programs / "engine", tmp_path / "log"
    engine.write_text(
        ENGINE.format(words=" ".join(builder.words), options=" ".join(options), container=container.strip())
    )
    (programs / "apptainer").write_text(APPTAINER.format(engine=engine, log=log))
    for program in programs.iterdir():
        program.chmod(0o755)
    beside = {**os.environ, "HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}

    made = run(engine, sys.executable, "-m", "uenvtool", "venv", "mine", "tool", "ipykernel")
    assert made.returncode == 0, made.stderr
    added = run(engine, sys.executable, "-m", "uenvtool", "kernel", "add", "mine", "--name", "Mine")
    assert added.returncode == 0, added.stderr
    inside = run(engine, sys.executable, "-c", NOTEBOOK, CELL)
    started_inside = log.exists()
    kernel = json.loads((tmp_path / ".local/share/jupyter/kernels/mine/kernel.json").read_text())
    words = kernel["argv"][: kernel["argv"].index("-m")]  # the stand-in takes no signals and no sockets: one command
    outside = run(*words, "-c", CELL, env=beside)
    editor = run(place / "mine/bin/python-on-base", "-c", "import torch; print(torch.__version__)", env=beside)
    subprocess.run([*builder.words, "rm", container.strip()], capture_output=True, check=True)

    assert made.returncode == 0, made.stderr
    assert (
        json.loads((tmp_path / ".local/share/jupyter/kernels/mine/kernel.json").read_text())["display_name"] == "Mine"
    )
    assert inside.stdout.strip() == "2.0 2.8.0a0+nv25.6 True", inside.stderr
    assert not started_inside  # no container starts in another
    assert outside.stdout.strip() == "2.0 2.8.0a0+nv25.6 True", outside.stderr
    assert editor.stdout.strip() == "2.8.0a0+nv25.6", editor.stderr


def run(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], env=env, capture_output=True, text=True, check=False)
