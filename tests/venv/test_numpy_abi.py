"""A compiled module that was built for numpy 1 is not put beside numpy 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import install, wheel

FOR_1 = b"\x7fELF numpy.core._multiarray_umath\x00 _ARRAY_API"
FOR_BOTH = FOR_1 + b" numpy._core._multiarray_umath\x00"


def compiled(folder: Path, name: str, version: str, content: bytes, *requires: str) -> Path:
    return wheel(
        folder, name, version, requires=requires, files={f"{name}/_c.cpython-312-x86_64-linux-gnu.so": content}
    )


@pytest.mark.parametrize(
    ("base_numpy", "wanted", "code"),
    [
        ("2.1.0", ["old"], 1),
        ("2.1.0", ["both"], 0),
        ("1.26.4", ["old"], 0),
        ("1.26.4", ["old", "numpy>=2"], 1),
        ("1.26.4", ["both", "numpy>=2"], 0),
    ],
)
def test_a_wheel_built_for_numpy_1_beside_numpy_2_is_refused(
    loaded: Loaded, wheels: Path, cli: Cli, place: Path,
    base_numpy: str, wanted: list[str], code: int,
) -> None:  # fmt: skip
    here = loaded("pythonpath")
    install(here.site, wheel(place / "old", "numpy", base_numpy))
    wheel(wheels, "numpy", "2.2.0")
    compiled(wheels, "old", "1.0", FOR_1, "numpy")
    compiled(wheels, "both", "1.0", FOR_BOTH, "numpy")

    answer = cli("venv", "v", *wanted)

    assert answer.code == code, answer.stderr
    if code:
        assert "old 1.0 is built for numpy 1 (_c.cpython-312-x86_64-linux-gnu.so)" in answer.stderr
        assert "hint: ask for a newer old" in answer.stderr


def test_a_newer_numpy_over_a_base_that_is_built_for_numpy_1_is_refused(
    loaded: Loaded, wheels: Path, cli: Cli, place: Path
) -> None:
    here = loaded("pythonpath")
    install(here.site, wheel(place / "old", "numpy", "1.26.4"), compiled(place / "old", "torch", "2.1.0", FOR_1))
    wheel(wheels, "numpy", "2.2.0")

    answer = cli("venv", "v", "numpy>=2")

    assert answer.code == 1
    assert "torch 2.1.0 is built for numpy 1" in answer.stderr
    assert "the overlay gets numpy 2.2.0" in answer.stderr
