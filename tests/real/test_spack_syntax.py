"""Test that uenvtool parses specs and versions like real Spack."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import RealSpack
from uenvtool.knowledge.spec import SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Version, versions

pytestmark = [pytest.mark.real, pytest.mark.slow]

VERSIONS = [
    *["1", "1.2", "1.2.0", "1.2.3", "1.10", "2.6.0", "2.26.2-1", "2.26.10-1", "9.2.0.82-12", "9.10.2.21-12"],
    *["1.15.2.0", "1.22.0", "2023-05-30", "20240722.0", "1.2-rc1", "1.2rc2", "1.2-alpha1", "1.2b", "1.2.b3"],
    *["main", "master", "develop", "stable", "24-05-4", "2.3.0.dev0", "6.5-20240923", "3.2.0.a"],
]
CONSTRAINTS = ["1.2", "=1.2", "1.2:", ":1.2", "1.2:1.10", ":2.26", "2.26", "2.27:", "1.0,2.0:", "=9.2.0.82-12", "9.2"]
SPECS = [
    *["", "hdf5", "hdf5@1.14.5", "hdf5@=1.14.5 +mpi~cxx", "hdf5 @1.12:1.14,2: api=default", "builtin.hdf5", "*"],
    "py-torch@2.6.0 +custom-protobuf ~mkldnn cuda_arch=90,90a",
    *["gcc@13.3.0 languages=c,c++,fortran", "gcc@12.3.0 languages='c,c++,fortran'", "slurm@24-05-4"],
    "libfabric@1.15.2.0 fabrics=cxi,rxm,tcp,rxd,udp +cuda cuda_arch=90",
    *["hdf5 %gcc@13.3.0 ^zlib-ng@2.2", "hdf5 os=sles15 target=neoverse_v2", "xpmem@2.9.6 ~kernel-module"],
    *["hdf5@", "hdf5 +", "hdf5 $(id)", "hdf5; ls", "hdf5@1@2", "hdf5 +mpi ~mpi", "hdf5 %c=gcc", "hdf5 zlib"],
    *["hdf5 ^c,cxx=gcc@12", "hdf5 %[when='+x']gcc", "hdf5/abcdef", "hdf5@git.a/b", "hdf5@git.main=1.2"],
    *["hdf5 x= y=z", "hdf5@2:1", "hdf5@1:2:3", "hdf5 %[colour=red]gcc", "hdf5 /a /b"],
    "hdf5 cflags='-O2' cflags='-g'",
]
"""Usual specs, and specs that uenvtool once parsed differently from Spack."""
ODD = {
    *["hdf5 os=sles15 target=neoverse_v2", "hdf5 cflags='-O2' cflags='-g'", "hdf5/abcdef", "hdf5 /a /b"],
    *["builtin.hdf5", ""],
}
"""Those with words that are no variants to Spack, or with a namespace; and none, which Spack takes for any."""
ASK = """
import json, sys
from spack.spec import Spec
from spack.version import Version, VersionLookupError, ver
Spec.attach_git_version_lookup = lambda self: None  # it clones from the internet
versions, constraints, specs = json.load(open(sys.argv[1]))
def node(text):
    try:
        spec = Spec(text)
    except VersionLookupError:
        return "not known without a network"
    except Exception:
        return None
    return [spec.name or "", sorted(spec.variants)]
answer = {
    "less": [[Version(a) < Version(b) for b in versions] for a in versions],
    "contains": [[Version(v).satisfies(ver(c)) for v in versions] for c in constraints],
    "intersects": [[ver(a).intersects(ver(b)) for b in constraints] for a in constraints],
    "specs": [node(s) for s in specs],
}
json.dump(answer, open(sys.argv[2], "w"))
"""


def ask_spack(
    spack: RealSpack, place: Path, versions: list[str], constraints: list[str], specs: list[str]
) -> dict[str, Any]:
    """Return the results of Spack's own classes, with None for an invalid spec."""
    (place / "ask.py").write_text(ASK)
    (place / "asked.json").write_text(json.dumps([versions, constraints, specs]))
    (place / "spack.yaml").write_text(f"spack: {{specs: [], repos: {{builtin: {spack.builtin}}}}}\n")
    command = [spack.program, "-e", ".", "python", "ask.py", "asked.json", "said.json"]
    subprocess.run(command, check=True, capture_output=True)
    answer: dict[str, Any] = json.loads((place / "said.json").read_text())
    return answer


def test_versions_and_specs_mean_the_same(real_spack: RealSpack, place: Path) -> None:
    spack_says = ask_spack(real_spack, place, VERSIONS, CONSTRAINTS, SPECS)
    meets = [versions(constraint) for constraint in CONSTRAINTS]
    ours = {
        "less": [[Version(a) < Version(b) for b in VERSIONS] for a in VERSIONS],
        "contains": [[constraint.contains(Version(version)) for version in VERSIONS] for constraint in meets],
        "intersects": [[a.intersects(b) for b in meets] for a in meets],
    }
    names = {
        "less": (VERSIONS, VERSIONS),
        "contains": (CONSTRAINTS, VERSIONS),
        "intersects": (CONSTRAINTS, CONSTRAINTS),
    }
    wrong = [
        f"{relation}: {a}, {b}"
        for relation, (rows, columns) in names.items()
        for (i, a), (j, b) in itertools.product(enumerate(rows), enumerate(columns))
        if ours[relation][i][j] != spack_says[relation][i][j]
    ]
    for text, said in zip(SPECS, spack_says["specs"], strict=True):
        if said is not None and text not in ODD and (read := _ours(text)) != said:
            wrong.append(f"{text!r}: {read} but Spack says {said}")
    assert wrong == []


DANGLING = re.compile(r"[%^\]]\s*([%^\]]|$)")
"""A sigil with nothing behind it: Spack takes it for any package, we take it for a slip of the recipe's author."""
WORDS = ["hdf5", "py-torch", "gcc", "c", "cxx", "mpi", "zlib-ng", "builtin.hdf5", "*", "a_b", "x86_64", "when"]
NUMBERS = [
    *["1", "1.2", "2.6.0", "=1.2", "1.2:", ":1.2", "1.2:2", "2:1", "1,3:4", "main", "1-"],
    *["git.main", "git.a/b", "git.v1=1.2"],
]
VALUES = ["90", "90,90a", "'a b'", '"x"', "c,c++", "none", "*", "'it\\'s'", "", "a=b", "%x", "TRUE"]
KEYS = ["api", "cuda_arch", "target", "os", "arch", "cflags", "namespace", "when", "deptypes"]


def generated(count: int, seed: int = 11) -> list[str]:
    """Return random specs from parts of the grammar, some of them with one character added or removed."""
    chance = random.Random(seed)
    pick = chance.choice

    def attribute() -> str:
        return f"{pick(['when', 'virtuals', 'deptypes', 'x'])}={pick([*VALUES, '+x', 'build', 'link,run'])}"

    def piece() -> str:
        kinds = [
            lambda: "@" + pick(NUMBERS),
            lambda: pick("+-~") + pick(["", "", " "]) + pick(WORDS),
            lambda: pick(["++", "~~", "--"]) + pick(WORDS),
            lambda: pick(KEYS) + pick(["=", "=", "==", ":="]) + pick(VALUES),
            lambda: "/" + pick(["abc", "0a1b", ""]),
            lambda: pick("%^") + pick(["", "", "c=", "c,cxx="]) + pick(WORDS) + pick(["", "@" + pick(NUMBERS)]),
            lambda: f"{pick('%^')}[{attribute()}]" + pick(["", " ", "c="]) + pick(WORDS),
            lambda: pick(WORDS),
        ]
        weights = [4, 4, 1, 4, 1, 4, 2, 1]
        return chance.choices(kinds, weights)[0]()

    def spec() -> str:
        text = pick([*WORDS, ""]) + "".join(pick(["", " ", " "]) + piece() for _ in range(chance.randrange(4)))
        if text and chance.random() < 0.3:
            at = chance.randrange(len(text))
            text = text[:at] + pick([*"@%^+~=:,[]'/ .-*$", ""]) + text[at + chance.randrange(2) :]
        return text

    return [spec() for _ in range(count)]


def test_no_spec_that_spack_takes_is_refused(real_spack: RealSpack, place: Path) -> None:
    texts = [text for text in generated(10_000) if text.strip()]

    said = ask_spack(real_spack, place, [], [], texts)["specs"]

    wrong = [
        text
        for text, spack in zip(texts, said, strict=True)
        if not DANGLING.search(text) and isinstance(spack, list) and _ours(text) is None
    ]
    assert wrong == []
    assert 0.2 < sum(spack is not None for spack in said) / len(said) < 0.8


def _ours(text: str) -> list[object] | None:
    """Return the package and the variants, or None for an invalid spec."""
    try:
        spec = parse_spec(text)
    except SpecSyntaxError:
        return None
    return [spec.package, sorted(spec.words)]
