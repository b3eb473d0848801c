"""Test invented sites from `new system` to `build --no-concretize`, with the output of `validate` after each step.

sites/ has a file per site. `edit` replaces texts of the system file, as an engineer of the site would. `packages` are
the requirements in the generated spack.yaml.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli, Write

SITES = sorted((Path(__file__).parent / "sites").glob("*.yaml"))
TOOLS = {
    "extends": "hello",
    "description": "The first image of our site.",
    "mpi": True,
    "groups": {"measure": {"reason": "to measure the network", "specs": ["osu-micro-benchmarks"]}},
}
SYSTEM = Path("systems/ours.yaml")


@pytest.mark.parametrize("file", SITES, ids=lambda file: file.stem)
def test_a_site_comes_from_its_first_file_to_an_environment(cli: Cli, write: Write, file: Path) -> None:
    site = yaml.safe_load(file.read_text())
    assert cli(*shlex.split(site["new"])).code == 0
    for step in site["steps"]:
        edit(step.get("edit", {}))
        assert cli("validate", str(SYSTEM)).stderr.rstrip("\n") == step["validate"], step["does"]

    for build in site["builds"]:
        name = build["recipe"]
        if name == "tools" or "text" in build:
            write_recipe(write, "tools", {"text": TOOLS})
        if "text" in build:
            write_recipe(write, name, build)
        answer = cli("build", name, "--system", "ours", "--no-concretize")
        assert answer.code == 0, answer.stderr
        assert not [line for line in answer.stderr.splitlines() if "systems/ours.yaml" in line]
        (manifest,) = Path("envs", name).glob("ours-*/spack.yaml")
        packages = yaml.load(manifest.read_text(), yaml.CSafeLoader)["spack"]["packages"]
        assert {package: packages[package]["require"] for package in build["packages"]} == build["packages"], name

    for job in site["jobs"]:
        written = cli("job", "--system", "ours", *shlex.split(job["job"]), "-o", "job.sh", "--", "python", "train.py")
        assert written.code == 0, written.stderr
        texts = "\n".join(path.read_text() for path in Path().glob("job*"))
        assert not [text for text in job["has"] if text not in texts]
        for path in Path().glob("job*"):
            path.unlink()


def edit(replaced: dict[str, str]) -> None:
    text = SYSTEM.read_text()
    for old, new in replaced.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    SYSTEM.write_text(text)


def write_recipe(write: Write, name: str, build: dict[str, Any]) -> None:
    write(f"recipes/{name}/recipe.yaml", yaml.safe_dump(build["text"], sort_keys=False))
    if "modules" in build:
        write(f"recipes/{name}/modules.yaml", yaml.safe_dump(build["modules"]))
