"""Site files: which one counts, its variables, and what is wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Write
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.kinds import SITE, kind_of
from uenvtool.knowledge.site import load_site, site_here
from uenvtool.knowledge.source import read


def test_the_named_file_counts_then_that_of_the_variable_then_the_users_own(write: Write, place: Path) -> None:
    home = {"HOME": str(place.parent / "home")}
    own = Path(home["HOME"]) / ".config" / "uenvtool" / "site.yaml"
    assert site_here(environ=home).path is None

    own.parent.mkdir(parents=True)
    own.write_text("stores: /own\n")
    named = write("named.yaml", "stores: /named\n")
    write("other.yaml", "stores: /other\n")

    assert site_here(environ=home).stores == "/own"
    assert site_here(environ={"UENVTOOL_SITE": "other.yaml"}).stores == "/other"
    assert site_here(named, {"UENVTOOL_SITE": "other.yaml"}).stores == "/named"


def test_the_current_folder_is_not_looked_into(write: Write) -> None:
    for name in ("site.yaml", "sites/site.yaml", "sites/example.yaml"):
        write(name, "spack: ./theirs\n")

    assert site_here(environ={}).spack == ""


def test_variables_are_filled_in_and_the_home_folder_is(write: Write, place: Path) -> None:
    text = "spack: ${TOOLS}/spack\nstores: ~/stores\nmirrors:\n  cache: {url: '${TOOLS}/cache', profile: builds}\n"

    site = site_here(write("site.yaml", text), {"TOOLS": "/opt"})

    assert (site.spack, site.stores) == ("/opt/spack", str(place.parent / "home" / "stores"))
    assert site.spack_mirrors == {"cache": {"url": "/opt/cache", "profile": "builds"}}


def test_each_variable_that_is_not_set_is_said_where_it_stands(write: Write) -> None:
    text = (
        "spack: ${TOOLS}/spack\n"
        "mirrors:\n"
        "  cache:\n"
        "    url: s3://cache\n"
        "    access_pair: {id_variable: CACHE_ID, secret_variable: CACHE_SECRET}\n"
        "    push: {url: s3://cache, access_token_variable: TOKEN}\n"
    )

    with pytest.raises(BadInput) as raised:
        site_here(write("site.yaml", text), {"CACHE_ID": "x"})

    assert [str(problem).splitlines()[0] for problem in raised.value.problems] == [
        "site.yaml:1:8: the variable TOOLS is not set",
        "site.yaml:5:59: the variable CACHE_SECRET is not set",
        "site.yaml:6:52: the variable TOKEN is not set",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("push: cahce\nmirrors: {cache: /x}\n", "1:7: no mirror is called 'cahce'"),
        ("mirrors: {cache: {url: s3://x, access_pair: {id_variable: A, secret: b}}}\n", "unknown key 'secret'"),
        ("mirrors: {cache: {url: s3://x, access_token: b}}\n", "unknown key 'access_token'"),
        ("mirors: {}\n", "1:1: unknown key 'mirors'"),
        ("jobs: 0\n", "1:7: jobs: "),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(write: Write, text: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        site_here(write("site.yaml", text), {})

    assert message in str(raised.value)


def test_one_is_laid_over_another(write: Write) -> None:
    write("base.yaml", "jobs: 8\nmirrors:\n  sources: /sources\n")
    file = write("site.yaml", "extends: ./base.yaml\nmirrors:\n  cache: /cache\n")

    site = site_here(file, {})

    assert site.jobs == 8
    assert site.spack_mirrors == {"sources": "/sources", "cache": "/cache"}


def test_the_one_that_ships_is_a_site_and_needs_no_variable_to_be_read() -> None:
    path = ROOT / "sites" / "example.yaml"

    assert kind_of(Path("x.yaml"), read(path, "x.yaml")) is SITE
    assert load_site(str(path)).push == "cache"
