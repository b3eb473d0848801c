"""Test spec syntax, versions and conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.knowledge.condition import ConditionSyntaxError, parse_condition
from uenvtool.knowledge.spec import SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Version, versions


def test_a_spec_is_taken_apart() -> None:
    spec = parse_spec("py-torch@2.6.0 +cuda ~rocm cuda_arch=90,90a  %gcc@13.3.0 ^openblas threads=openmp")

    assert spec.package == "py-torch"
    assert str(spec.versions) == "2.6.0"
    assert spec.words == {"cuda": "+cuda", "rocm": "~rocm", "cuda_arch": "cuda_arch=90,90a"}
    assert spec.without_dependencies == "py-torch@2.6.0 +cuda ~rocm cuda_arch=90,90a"
    assert spec.dependencies == "%gcc@13.3.0 ^openblas threads=openmp"


@pytest.mark.parametrize(
    ("above", "below", "joined"),
    [
        ("py-torch@2.7.1 +distributed", "py-torch@2.6.0 +gloo +caffe2", "py-torch@2.7.1 +gloo +caffe2 +distributed"),
        ("py-torch +ucc", "py-torch@2.6.0 +gloo", "py-torch@2.6.0 +gloo +ucc"),
        ("py-torch ~gloo", "py-torch@2.6.0 +gloo +mpi", "py-torch@2.6.0 ~gloo +mpi"),
        ("a cuda_arch=80", "a cuda_arch=90 +cuda", "a cuda_arch=80 +cuda"),
        ("a ^zlib@2", "a@1 %gcc@13 ^zlib@1 ^zstd", "a@1 %gcc@13 ^zlib@2 ^zstd"),
        ("a %clang", "a +x %gcc@13", "a +x %gcc@13 %clang"),
    ],
)
def test_a_spec_is_laid_over_another_variant_by_variant(above: str, below: str, joined: str) -> None:
    assert parse_spec(above).over(parse_spec(below)).text == joined


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("hdf5@", 6),
        ("hdf5@1@2", 7),
        ("hdf5 +", 6),
        ("hdf5 =x", 6),
        ("hdf5 ^", 7),
        ("hdf5 $(id)", 6),
        ("hdf5 +mpi ~mpi", 11),
        ("hdf5; rm -rf /", 5),
        ("hdf5 x= y=z", 7),
        ("hdf5 zlib", 6),
        ("hdf5 +mpi +mpi", 11),
        ("hdf5 %[when=a gcc", 7),
        ("./hdf5.yaml", 1),
    ],
)
def test_bad_spec_syntax_is_refused_at_its_column(text: str, column: int) -> None:
    with pytest.raises(SpecSyntaxError) as caught:
        parse_spec(text)

    assert caught.value.column == column


@pytest.mark.parametrize(
    ("text", "package", "edges"),
    [
        ("hdf5 %c=gcc", "hdf5", "%c=gcc"),
        ("hdf5 ^c,cxx=gcc@12", "hdf5", "^c,cxx=gcc@12"),
        ("hdf5 %[when='+x']gcc", "hdf5", "%[when='+x']gcc"),
        ("hdf5 %[virtuals=mpi] c,cxx=gcc", "hdf5", "%[virtuals=mpi] c,cxx=gcc"),
        ("hdf5/abc", "hdf5", ""),
        ("hdf5@git.a/b", "hdf5", ""),
        ("hdf5@git.main=1.14", "hdf5", ""),
        ("builtin.hdf5", "builtin.hdf5", ""),
        ("*@1.2", "", ""),
        ("hdf5 cflags='-O2' cflags='-g'", "hdf5", ""),
        ("hdf5 %gcc ^zlib %clang", "hdf5", "%gcc ^zlib %clang"),
        ("hdf5@1:1.14 api='a b' cuda_arch=${cuda_arch}", "hdf5", ""),
    ],
)
def test_what_spack_1_1_takes_is_taken(text: str, package: str, edges: str) -> None:
    spec = parse_spec(text)

    assert (spec.package, spec.dependencies) == (package, edges)


@given(st.text(max_size=40))
def test_any_text_is_a_spec_or_refused(text: str) -> None:
    try:
        parse_spec(text)
        column = 1
    except SpecSyntaxError as error:
        column = error.column
    assert 1 <= column <= len(text) + 2


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("2.6", "2.6.0"),
        ("2.26.2-1", "2.27"),
        ("1.15.2.0", "1.22.0"),
        ("9.2.0.82-12", "9.10"),
        ("1.2-rc1", "1.2"),
        ("1.2", "1.2.1"),
        ("2.9", "main"),
        ("main", "develop"),
        ("1.2b", "1.2.3"),
        ("2023-05-30", "2026-03-19"),
    ],
)
def test_versions_are_ordered_as_spack_orders_them(low: str, high: str) -> None:
    assert Version(low) < Version(high)
    assert not Version(high) < Version(low)


@pytest.mark.parametrize(
    ("constraint", "version", "contained"),
    [
        ("2.6", "2.6.1", True),
        ("2.6", "2.60", False),
        ("=2.6", "2.6.1", False),
        ("2.6:2.8", "2.8.4", True),
        (":2.5.1", "2.6.0", False),
        ("2.27:", "2.26.9", False),
        ("1.0,2.0:", "3", True),
        ("13", "13.3.0", True),
    ],
)
def test_a_constraint_contains_a_version(constraint: str, version: str, contained: bool) -> None:
    assert versions(constraint).contains(Version(version)) is contained


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("3.2.0", "3.4.0", False),
        ("2.6", "2.6.0", True),
        ("=2.6.0", "2.6", True),
        (":2.26", "2.28:", False),
        ("2.17:2.26", "2.26.2-1", True),
        ("12", "12.6.0", True),
    ],
)
def test_constraints_meet_or_not_whichever_comes_first(one: str, other: str, meet: bool) -> None:
    assert versions(one).intersects(versions(other)) is meet
    assert versions(other).intersects(versions(one)) is meet


FACTS = {"fabric": "slingshot", "nccl": "2.26.2-1", "ce": None, "uarch": "gh200"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("fabric == slingshot", True),
        ("fabric != slingshot", False),
        ("nccl >= 2.27", False),
        ("nccl < 2.27 and fabric == slingshot", True),
        ("uarch in gh200|a100", True),
        ("not ce", True),
        ("ce", False),
        ("cuda >= 12", None),
        ("cuda >= 12 and ce", False),
    ],
)
def test_a_condition_holds_or_not_or_cannot_be_known(text: str, holds: bool | None) -> None:
    assert parse_condition(text).holds(FACTS) is holds


@pytest.mark.parametrize("text", ["", "a = b", "a == ", "a == b or c == d", "$(x) == y", "a >= 1; rm"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionSyntaxError):
        parse_condition(text)
