"""Test complete runs of overlays on a base with conda's layout and on the Python of a module."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.real.test_job_slurm import Site, on_frontier, site
from tests.real.test_modules import init
from tests.support.needs import needs, skip_without
from tests.support.overlays import BaseHere, base, clean_environment, install, wheel
from tests.support.pythons import newest, pythons

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs"), pytest.mark.xdist_group("slurm")]
__all__ = ["init", "site"]
LOOK = """
import os, sys, inbase, tool, torch
print("rank", os.environ.get("RANK"), tool.__version__, inbase.__version__, torch.__version__, sys.prefix)
"""


def fill(here: BaseHere, wheels: Path) -> None:
    """Add torch with conda-forge's version, tool 1 and inbase 1 to a base, and provide tool 2, which needs torch."""
    look = [here.python, "-c", "import site; print(site.getsitepackages())"]
    if str(here.site) not in subprocess.run(look, capture_output=True, text=True, check=True).stdout:
        skip_without("a Python that looks into site-packages, as Debian's own does not", "`pyenv install 3.12`")
    old = wheels.parent / "old"
    install(
        here.site, *(wheel(old, *each) for each in (("torch", "2.6.0.post300"), ("tool", "1.0"), ("inbase", "1.0")))
    )
    wheel(wheels, "tool", "2.0", requires=["torch==2.6.0"])
    wheel(wheels, "torch", "2.6.0")


@pytest.fixture
def conda(loaded: Loaded, wheels: Path) -> BaseHere:
    here = loaded("conda")
    fill(here, wheels)
    return here


def test_a_packed_overlay_on_conda_runs_on_each_node(site: Site, conda: BaseHere, cli: Cli, place: Path) -> None:
    made = cli("venv", "v", "tool==2.0", "--squash")
    assert made.code == 0, made.stderr
    assert "uenv start" not in made.stderr  # which mounts nothing on this host
    (place / "look.py").write_text(LOOK)

    code, output = on_frontier(site, cli, "--venv", "v.squashfs", "--", "python", "look.py")

    assert code == 0, output
    ranks = sorted(re.findall(r"rank (\d) 2\.0 1\.0 2\.6\.0\.post300 /mnt/bb/root/overlay-\d+\n", output))
    assert ranks == list("01234567"), output


def test_a_change_of_conda_below_an_overlay_is_said(conda: BaseHere, cli: Cli, place: Path) -> None:
    assert cli("venv", "v", "tool==2.0").code == 0
    words = [str(place / "v" / "bin" / "python"), "-c", "print('ran')"]
    before = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, check=True)

    install(conda.site, wheel(place / "more", "more", "1.0"))
    after = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, check=True)

    assert (before.stdout, before.stderr, after.stdout) == ("ran\n", "", "ran\n")
    assert f"; update the overlay with: uenvtool venv {place}/v" in after.stderr


PREFIXES = """
import os, site
for prefix in os.environ.get("EBPYTHONPREFIXES", "").split(os.pathsep):
    site.addsitedir(os.path.join(prefix, "lib", "python{version}", "site-packages"))
"""


@pytest.mark.parametrize("by_prefixes", [False, True], ids=["in one folder", "EasyBuild"])
def test_the_python_of_a_module_is_the_base(
    init: Path, wheels: Path, no_base: None, place: Path, by_prefixes: bool
) -> None:
    version = newest()
    here = base(place.parent / "software", "module", pythons()[version], version)
    fill(here, wheels)
    module = place.parent / "modules" / "pytorch" / "2.6.0"
    module.parent.mkdir(parents=True)
    lines = f"#%Module1.0\nprepend-path PATH {here.root}/bin\n"
    if by_prefixes:  # EasyBuild's modules name the folder of each package to a Python that knows of it
        torch = place.parent / "torch" / "lib" / f"python{version}" / "site-packages"
        torch.mkdir(parents=True)
        for path in here.site.glob("torch*"):
            path.rename(torch / path.name)
        (here.site / "sitecustomize.py").write_text(PREFIXES.format(version=version))
        lines += f"prepend-path EBPYTHONPREFIXES {place.parent}/torch\n"
    module.write_text(lines)
    (place / "look.py").write_text(LOOK)
    script = f". {init}\nmodule use {module.parents[1]}\nmodule load pytorch/2.6.0\n"
    script += f'"{sys.executable}" -m uenvtool venv v tool==2.0 && v/bin/python look.py\n'
    env = clean_environment(HOME=str(place), PATH="/usr/bin:/bin", UENVTOOL_ROOT="/nothing")

    ran = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "rank None 2.0 1.0 2.6.0.post300" in ran.stdout
    assert "uenvtool-load = module load pytorch/2.6.0\n" in (place / "v" / "pyvenv.cfg").read_text()
