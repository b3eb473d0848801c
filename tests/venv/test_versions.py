"""Test when a base's version satisfies a requirement, and how requirement files are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from uenvtool.venv.compat import as_release, counts_as_release, satisfies
from uenvtool.venv.requirements import logical_lines

NGC, SPACK, CONDA = "2.6.0a0+ecf3bae40a.nv25.1", "2.3.0.dev0+dd4c17d", "2.4.1.post300"


@pytest.mark.parametrize(
    ("version", "specifier", "holds", "counted"),
    [
        (NGC, ">=2.6", True, True),
        (NGC, "==2.6.0", True, True),
        (NGC, ">=2.5,<2.7", True, False),
        (NGC, "~=2.6", True, True),
        (NGC, ">=2.7", False, False),
        (NGC, "<2.6", False, False),
        (SPACK, ">=2.3", True, True),
        (SPACK, "<2.3", False, False),
        (CONDA, "==2.4.1", True, True),
        (CONDA, ">2.4,<=2.4.1", True, True),
        (CONDA, ">=2.5", False, False),
        ("2.7.4.post1", "==2.7.4", False, False),
        ("2.9.1+cpu", "==2.9.1", True, False),
        ("2.9.1", ">2.9.1", False, False),
        ("not a version", ">=99", True, False),
    ],
)
def test_a_vendors_build_counts_as_its_release(version: str, specifier: str, holds: bool, counted: bool) -> None:
    assert satisfies(SpecifierSet(specifier), version) == holds
    assert counts_as_release(SpecifierSet(specifier), version) == counted


@given(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    st.sampled_from(["", "a0", "rc1", ".dev0"]),
    st.sampled_from(["", "+d883142", "+cu126"]),
)
def test_the_release_of_a_version_is_a_release_and_never_older(
    numbers: tuple[int, int, int], pre: str, local: str
) -> None:
    version = ".".join(map(str, numbers)) + pre + local

    release = Version(as_release(version))

    assert not release.is_prerelease
    assert release >= Version(version)
    assert release.base_version == Version(version).base_version
    assert (release.local or "") == local.removeprefix("+")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\n# c\nb # d\n", [(1, "a"), (4, "b")]),
        ("a \\\n  --hash=sha256:1\nb", [(1, "a    --hash=sha256:1"), (3, "b")]),
        ("a @ https://x/#egg=a\n", [(1, "a @ https://x/#egg=a")]),
        ("a\r\nb\r\n", [(1, "a"), (2, "b")]),
        ("a \\", [(1, "a")]),
    ],
)
def test_lines_of_a_requirements_file_keep_their_numbers(text: str, lines: list[tuple[int, str]]) -> None:
    assert list(logical_lines(text)) == lines
