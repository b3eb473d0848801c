"""Test the bill of materials of locks, and the search for a package in several locks."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.conftest import ROOT, Cli

LOCKS = sorted((ROOT / "envs").glob("*/*/spack.lock"))


def test_a_bill_states_that_its_vulnerabilities_are_incomplete(cli: Cli) -> None:
    text = cli("image", "sbom", LOCKS[0]).stdout

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    known = [vulnerability["bom-ref"] for vulnerability in bill.get("vulnerabilities", ())]
    assert bill["compositions"] == [{"aggregate": "incomplete", "vulnerabilities": known}]


@pytest.mark.parametrize("spec", ["py-torch", "py-torch@2.6:2.9", "py-torch@:1.0", "zlib-ng@2"])
def test_a_package_is_found_in_the_locks_that_contain_it(cli: Cli, spec: str) -> None:
    name, _, versions = spec.partition("@")
    expected = {
        str(path)
        for path in LOCKS
        for package in json.loads(path.read_text())["concrete_specs"].values()
        if package["name"] == name
        and (
            not versions
            or (versions == "2.6:2.9" and package["version"].startswith(("2.6", "2.7", "2.8", "2.9")))
            or (versions == "2" and package["version"].startswith("2."))
        )
    }

    answer = cli("image", "sbom", "--has", spec, *LOCKS, "--json")

    found = json.loads(answer.stdout)
    assert {row["file"] for row in found} == expected
    assert {row["package"] for row in found} <= {name}
    assert answer.code == (0 if expected else 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--has", "openssl +x"], "not a package with versions"),
        (["--has", "@1.0"], "not a package with versions"),
        (["--has", "a@@"], "--has 'a@@': "),
        ([], "several files need --has"),
    ],
)
def test_a_wrong_request_is_rejected(cli: Cli, words: list[str], message: str) -> None:
    answer = cli("image", "sbom", *words, *LOCKS[:2])

    assert answer.code == 2
    assert message in answer.stderr
