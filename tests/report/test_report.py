"""`uenvtool report`: what the page is told of environments, locks and overlays, and which file it is written to."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Answer, Cli, Loaded, Write
from tests.support.overlays import install, wheel
from uenvtool.image.contents import PYTHON, SPACK, Package
from uenvtool.report.licences import licence_of, module

RESOLVED = ROOT / "envs/pytorch-2.6/clariden-gh200"


def told(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def in_page(path: Path) -> dict[str, Any]:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    found: dict[str, Any] = json.loads(text)
    return found


def one(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(package for package in data["packages"] if package["name"] == name)


def test_an_environment_says_what_is_in_it_and_why(cli: Cli, place: Path) -> None:
    data = told(cli("report", RESOLVED, "--json"))

    lock = json.loads((RESOLVED / "spack.lock").read_text())
    assert data["title"] == "pytorch-2.6 for clariden, node type gh200"
    assert len(data["packages"]) == len(lock["concrete_specs"])
    torch = one(data, "py-torch")
    assert torch["asked"]
    assert any("without MKL-DNN" in line for line in torch["why"])
    assert "CVE-2025-46148" in torch["cves"]
    needs = {data["packages"][place]["name"] for place in torch["needs"]}
    assert {"nccl", "python"} <= needs
    assert "cmake" in {data["packages"][place]["name"] for place in torch["builds"]} - needs
    assert one(data, "cray-mpich")["outside"] == "" or "system" in one(data, "cray-mpich")["outside"]
    curl = next(row for row in data["published"] if row["name"] == "curl")
    assert (curl["published"], curl["same"]) == ("8.10.1", False)
    assert "vulnerabilities" in curl["reason"]
    assert {row["name"]: row["value"] for row in data["variables"]}["NCCL_NET"] == "AWS Libfabric"
    assert len(data["critical_path"]) > 5
    assert in_page(place / "report.html") == data


def test_a_recipe_is_the_environment_that_ships(cli: Cli) -> None:
    assert told(cli("report", "pytorch-2.6", "-s", "clariden", "--json")) == told(cli("report", RESOLVED, "--json"))


def test_a_recipe_that_nobody_resolved_says_how(cli: Cli) -> None:
    answer = cli("report", "pytorch-2.8", "-s", "bristen")

    assert answer.code == 2
    assert "uenvtool build pytorch-2.8 --system bristen" in answer.stderr


def test_a_lock_alone_says_what_is_not_known(cli: Cli, place: Path) -> None:
    shutil.copy(RESOLVED / "spack.lock", place / "mine.lock")

    answer = cli("report", "mine.lock", "-o", "mine.html")

    assert "not known: recipe: its spack.yaml" in answer.stderr
    data = in_page(place / "mine.html")
    assert (data["published"], data["variables"]) == ([], [])
    assert one(data, "py-torch")["asked"]


def test_licences_are_those_of_a_checkout_of_packages(cli: Cli, write: Write) -> None:
    write("checkout/repo.yaml", "repo: {namespace: builtin, api: v2.2}\n")
    write(
        "checkout/packages/py_torch/package.py",
        'class PyTorch(PythonPackage):\n    license("BSD-3-Clause", checked_by="somebody")\n'
        '    license("MIT", when="@3:")\n',
    )

    data = told(cli("report", RESOLVED, "--repo", "builtin=checkout", "--json"))

    assert (one(data, "py-torch")["licence"], one(data, "nccl")["licence"]) == ("BSD-3-Clause", "")


@pytest.mark.parametrize(
    ("kind", "text", "licence"),
    [
        (PYTHON, "Name: a\nLicense-Expression: MIT\nLicense: other\n", "MIT"),
        (PYTHON, "Name: a\nLicense: BSD\n\nLicense: of the text\n", "BSD"),
        (PYTHON, "Name: a\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        (PYTHON, "Name: a\n", ""),
        (SPACK, '    license("A")\n    license("B", when="@:1.9")\n    license(\'C\', when="@2: +x")\n', "A; C"),
        (SPACK, '    license("A", when="+gpl")\n', "A"),
        (SPACK, '# license("A")\n', ""),
        (SPACK, '    license("A", when="@:")\n', "A"),
    ],
)
def test_a_licence_is_that_of_the_version(kind: str, text: str, licence: str) -> None:
    package = Package(name="a", version="2.1", kind=kind, bytes=0, folder="a")

    assert licence_of(package, text) == licence


def test_the_folder_of_a_package_is_spacks() -> None:
    assert (module("py-torch"), module("7zip")) == ("py_torch", "_7zip")


def test_an_overlay_shows_what_it_has_and_what_it_takes_of_the_base(
    cli: Cli, place: Path, wheels: Path, loaded: Loaded
) -> None:
    install(loaded().site, wheel(place.parent / "old", "numpy", "1.0"))
    wheel(wheels, "helper", "1.0", files={"helper/data.bin": "d" * 100_000})
    wheel(wheels, "tool", "2.0", requires=["helper", "numpy"])
    assert cli("venv", "v", "tool").code == 0

    data = told(cli("report", "v", "--json"))

    tool = one(data, "tool")
    assert {data["packages"][index]["name"] for index in tool["needs"]} == {"helper", "numpy"}
    assert (tool["asked"], one(data, "helper")["asked"]) == (True, False)
    assert one(data, "helper")["bytes"] > 100_000
    assert one(data, "numpy")["outside"] == "of the base"


def test_a_page_of_somebody_else_stays(cli: Cli, place: Path) -> None:
    (place / "report.html").write_text("mine")

    answer = cli("report", RESOLVED)

    assert (answer.code, (place / "report.html").read_text()) == (2, "mine")


def test_the_same_stack_gives_the_same_page(cli: Cli, place: Path) -> None:
    cli("report", RESOLVED)
    before = (place / "report.html").read_bytes()

    assert cli("report", RESOLVED).code == 0
    assert (place / "report.html").read_bytes() == before


@pytest.mark.parametrize("source", ["nothing", ".", "report.txt"])
def test_what_is_no_stack_is_bad_input(cli: Cli, place: Path, source: str) -> None:
    (place / "report.txt").write_text("no lock")

    answer = cli("report", source)

    assert (answer.code, "Traceback" in answer.stderr) == (2, False)
    assert not (place / "report.html").exists()
