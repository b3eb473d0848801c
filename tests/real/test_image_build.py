"""The image of an environment that real Spack installed, loaded by the real uenv client."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.support import peers
from tests.support.installed import installed_hello
from tests.support.project import CACHE

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.xdist_group("spack"),
    pytest.mark.skipif(importlib.util.find_spec("clingo") is None, reason="needs Spack's solver: pip install clingo"),
    pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs: apt-get install squashfs-tools"),
]
Cli = Callable[..., Answer]
LOOK = (
    "import json, sys, jinja2, markupsafe._speedups as c; print(json.dumps([sys.prefix, jinja2.__file__, c.__file__]))"
)


def test_a_recipe_becomes_an_image_that_the_uenv_client_loads(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPACK_PYTHON", sys.executable)
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(CACHE / "spack-user"))
    client = peers.uenv_programs()
    hello = installed_hello()
    shutil.copytree(hello.store, place / "store", symlinks=True)  # as a run that was stopped after the last package
    before = os.listdir("/user-environment")
    spack, packages = peers.SPACK.need(), peers.PACKAGES.need()
    options = ["--spack", spack, "--repo", f"builtin={packages}", "--store", place / "store", "--json"]

    answer = cli("image", "build", hello.environment, "-o", "hello.squashfs", *options)
    again = cli("image", "build", hello.environment, "-o", "again/hello.squashfs", *options)

    assert answer.code == 0, answer.stderr
    assert json.loads(answer.stdout)["sha256"] == json.loads(again.stdout)["sha256"]
    assert os.listdir("/user-environment") == before
    loaded = ["uenv", "run", "./hello.squashfs", "--view=default", "--"]
    environ = {"PATH": f"{client}:{os.environ['PATH']}", "HOME": os.environ["HOME"]}

    def run(*words: str) -> str:
        return subprocess.run([*loaded, *words], env=environ, capture_output=True, text=True, check=True).stdout

    assert run("pigz", "--version").strip() == "pigz 2.8"
    assert all(path.startswith("/user-environment/env/default") for path in json.loads(run("python", "-c", LOOK)))
    assert run("bash", "-c", "echo $PATH").startswith("/user-environment/env/default/bin:")
    assert "hello" in json.loads(run("cat", "/user-environment/meta/env.json"))["name"]
    assert run("cat", "/user-environment/meta/recipe/spack.lock") == (hello.environment / "spack.lock").read_text()
