"""Test that the files for hosting services, package indexes and releases match their schemas."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.needs import skip_without
from tests.support.project import ROOT
from tests.support.toml import loads
from uenvtool import __version__

SCHEMAS = {
    ".github/workflows/tests.yml": "vendor.github-workflows",
    ".github/workflows/nightly.yml": "vendor.github-workflows",
    ".github/workflows/release.yml": "vendor.github-workflows",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/fault.yml": "vendor.github-issue-forms",
    ".github/ISSUE_TEMPLATE/knowledge.yml": "vendor.github-issue-forms",
    ".gitlab-ci.yml": "vendor.gitlab-ci",
    "CITATION.cff": "vendor.citation-file-format",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
def test_each_is_as_its_schema_wants(name: str) -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    if not program.is_file():
        skip_without("check-jsonschema", "pip install check-jsonschema")

    done = subprocess.run(
        [program, "--builtin-schema", SCHEMAS[name], ROOT / name], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tag", ["v0.0.1", __version__])
def test_a_tag_that_is_not_the_version_releases_nothing(tag: str) -> None:
    ran = subprocess.run([ROOT / "tools/release", tag], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"the tag is {tag}, but uenvtool/__init__.py has version {__version__}" in ran.stderr


def test_every_version_is_the_same() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(r"^## \[(.+?)\]", changes, re.MULTILINE)[1] == __version__  # type: ignore[index]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.slow
def test_a_wheel_and_an_sdist_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / name), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        made.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})

    assert made[0] == made[1]
    assert len(made[0]) == 2
    with zipfile.ZipFile(next((tmp_path / "one").glob("*.whl"))) as wheel:
        [bill] = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
        assert_is_the_bill(wheel.read(bill).decode())


def test_the_bill_of_materials_has_what_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    hook = pytest.importorskip("hook", reason="needs hatchling: pip install hatchling")

    assert_is_the_bill(hook.bill(__version__, "MIT", project()["dependencies"]))


def project() -> dict[str, Any]:
    found: dict[str, Any] = loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def assert_is_the_bill(text: str) -> None:
    data = json.loads(text)
    named = {part["name"] for part in data["components"]}

    assert data["metadata"]["component"]["purl"] == f"pkg:pypi/uenvtool@{__version__}"
    assert named == {canonicalize_name(Requirement(text).name) for text in project()["dependencies"]}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
