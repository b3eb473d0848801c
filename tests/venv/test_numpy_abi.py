"""Test that a compiled module for numpy 1 is not installed with numpy 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, install, wheel
from tests.support.samples import slow

FOR_1 = b"\x7fELF numpy.core._multiarray_umath\x00 _ARRAY_API"
FOR_BOTH = FOR_1 + b" numpy._core._multiarray_umath\x00"


def compiled(folder: Path, name: str, content: bytes) -> Path:
    files = {f"{name}/_c.cpython-312-x86_64-linux-gnu.so": content}
    return wheel(folder, name, "1.0", requires=("numpy",), files=files)


@pytest.mark.parametrize(
    ("base_numpy", "in_base", "wanted", "told"),
    [
        ("2.1.0", b"", ["old"], "old 1.0 is built for numpy 1 (_c.cpython-312-x86_64-linux-gnu.so)"),
        slow("2.1.0", b"", ["both"], ""),
        slow("1.26.4", b"", ["old"], ""),
        ("1.26.4", b"", ["old", "numpy>=2"], "hint: request a newer old"),
        slow("1.26.4", b"", ["both", "numpy>=2"], ""),
        ("1.26.4", FOR_1, ["numpy>=2"], "viewer 1.0 is built for numpy 1"),
    ],
)
def test_what_is_built_for_numpy_1_is_not_put_beside_numpy_2(
    here: BaseHere, wheels: Path, cli: Cli, place: Path,
    base_numpy: str, in_base: bytes, wanted: list[str], told: str,
) -> None:  # fmt: skip
    install(here.site, wheel(place / "old", "numpy", base_numpy), compiled(place / "old", "viewer", in_base))
    wheel(wheels, "numpy", "2.2.0")
    compiled(wheels, "old", FOR_1)
    compiled(wheels, "both", FOR_BOTH)

    answer = cli("venv", "v", *wanted)

    assert answer.code == (1 if told else 0)
    assert told in answer.stderr
