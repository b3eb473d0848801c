"""Our reading of specs and versions agrees with real Spack's."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest

from tests.real.conftest import RealSpack
from uenvtool.model.spec import SpecSyntaxError, parse_spec
from uenvtool.model.version import Version, versions

pytestmark = pytest.mark.real

VERSIONS = [
    *["1", "1.2", "1.2.0", "1.2.3", "1.10", "2.6.0", "2.26.2-1", "2.26.10-1", "9.2.0.82-12", "9.10.2.21-12"],
    *["1.15.2.0", "1.22.0", "2023-05-30", "20240722.0", "1.2-rc1", "1.2rc2", "1.2-alpha1", "1.2b", "1.2.b3"],
    *["main", "master", "develop", "stable", "24-05-4", "2.3.0.dev0", "6.5-20240923", "3.2.0.a"],
]
CONSTRAINTS = ["1.2", "=1.2", "1.2:", ":1.2", "1.2:1.10", ":2.26", "2.26", "2.27:", "1.0,2.0:", "=9.2.0.82-12", "9.2"]
SPECS = [
    "hdf5",
    "hdf5@1.14.5",
    "hdf5@=1.14.5 +mpi~cxx",
    "hdf5 @1.12:1.14,2: api=default",
    "py-torch@2.6.0 +custom-protobuf ~mkldnn cuda_arch=90,90a",
    "gcc@13.3.0 languages=c,c++,fortran",
    "gcc@12.3.0 languages='c,c++,fortran'",
    "libfabric@1.15.2.0 fabrics=cxi,rxm,tcp,rxd,udp +cuda cuda_arch=90",
    "hdf5 %gcc@13.3.0 ^zlib-ng@2.2",
    "hdf5 os=sles15 target=neoverse_v2",
    "xpmem@2.9.6 ~kernel-module",
    "slurm@24-05-4",
    "hdf5@",
    "hdf5 +",
    "hdf5 $(id)",
    "hdf5; ls",
    "hdf5@1@2",
    "hdf5 +mpi ~mpi",
    "",
]
ASK = """
import json, sys
from spack.spec import Spec
from spack.version import Version, ver
versions, constraints, specs = json.load(open(sys.argv[1]))
def node(text):
    try:
        spec = Spec(text)
    except Exception:
        return None
    def value(variant):
        return variant.value if isinstance(variant.value, bool) else sorted(map(str, variant.values))
    return [spec.name or "", {name: value(variant) for name, variant in spec.variants.items()}]
answer = {
    "less": [[Version(a) < Version(b) for b in versions] for a in versions],
    "contains": [[Version(v).satisfies(ver(c)) for v in versions] for c in constraints],
    "intersects": [[ver(a).intersects(ver(b)) for b in constraints] for a in constraints],
    "specs": [node(s) for s in specs],
}
json.dump(answer, open(sys.argv[2], "w"))
"""


@pytest.fixture
def spack_says(real_spack: RealSpack, place: Path) -> dict[str, list]:  # type: ignore[type-arg]
    (place / "ask.py").write_text(ASK)
    (place / "asked.json").write_text(json.dumps([VERSIONS, CONSTRAINTS, SPECS]))
    (place / "spack.yaml").write_text(f"spack: {{specs: [], repos: {{builtin: {real_spack.builtin}}}}}\n")
    command = [real_spack.program, "-e", ".", "python", "ask.py", "asked.json", "said.json"]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((place / "said.json").read_text())  # type: ignore[no-any-return]


def test_versions_and_specs_mean_the_same(spack_says: dict[str, list]) -> None:  # type: ignore[type-arg]
    wrong = []
    for (i, a), (j, b) in itertools.product(enumerate(VERSIONS), repeat=2):
        if (Version(a) < Version(b)) != spack_says["less"][i][j]:
            wrong.append(f"{a} < {b}")
    for (i, constraint), (j, version) in itertools.product(enumerate(CONSTRAINTS), enumerate(VERSIONS)):
        if versions(constraint).contains(Version(version)) != spack_says["contains"][i][j]:
            wrong.append(f"{version} in {constraint}")
    for (i, a), (j, b) in itertools.product(enumerate(CONSTRAINTS), repeat=2):
        if versions(a).intersects(versions(b)) != spack_says["intersects"][i][j]:
            wrong.append(f"{a} meets {b}")
    for text, said in zip(SPECS, spack_says["specs"], strict=True):
        if (ours := _ours(text)) != said and text:
            wrong.append(f"{text!r}: {ours} but Spack says {said}")
    assert wrong == []


def _ours(text: str) -> list[object] | None:
    try:
        spec = parse_spec(text)
    except SpecSyntaxError:
        return None
    architecture = ("os", "target", "platform", "arch")
    found = [(name, value) for name, value in spec.variants.items() if name not in architecture]
    return [
        spec.package,
        {name: value if isinstance(value, bool) else sorted(value.split(",")) for name, value in found},
    ]
