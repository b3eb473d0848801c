"""What `spack install` prints is followed: done, from a cache, built, and what is worked on; lines of Spack v1.1.0."""

from __future__ import annotations

from uenvtool.env.install import InstallOutput

HASH = "q7z6cxi3epbr7e73s6ljvxn42zarvmle"
EXTERNAL = "[+] /usr (external glibc-2.36-kh2vnrcjutwdbpb2z4f2yjwba3upc7ht)"
FROM_CACHE = f"""\
==> Fetching file:///cache/blobs/sha256/20/2058893f
==> Extracting python-venv-1.0-{HASH} from binary cache
==> python-venv: Successfully installed python-venv-1.0-{HASH}
  Search: 0.00s.  Fetch: 0.00s.  Install: 0.04s.  Extract: 0.02s.  Relocate: 0.01s.  Total: 0.04s
[+] /user-environment/linux-zen2/python-venv-1.0-{HASH}
==> Installing python-venv-1.0-{HASH} [2/3]
"""
FROM_SOURCE = f"""\
==> No binary for py-pip-23.1.2-{HASH} found: installing from source
==> Installing py-pip-23.1.2-{HASH} [3/3]
==> No patches needed for py-pip
==> py-pip: Executing phase: 'install'
==> py-pip: Successfully installed py-pip-23.1.2-{HASH}
[+] /user-environment/linux-zen2/py-pip-23.1.2-{HASH}
"""


def test_each_package_is_told_once_when_it_is_begun() -> None:
    output = InstallOutput(total=3)

    told = [output.text() for line in (EXTERNAL + "\n" + FROM_CACHE + FROM_SOURCE).splitlines() if output.take(line)]

    assert told == [
        "1 done, 2 left; unpacking python-venv-1.0",
        "2 done, 1 left, 1 cached; building py-pip-23.1.2",
    ]
    assert (output.in_place, output.cached, output.built) == (3, ["python-venv-1.0"], ["py-pip-23.1.2"])


def test_what_an_earlier_run_installed_is_done_and_neither_cached_nor_built() -> None:
    output = InstallOutput(total=2)

    for line in (EXTERNAL, f"[+] /user-environment/linux-zen2/zstd-1.5.6-{HASH}"):
        assert not output.take(line)

    assert (output.in_place, output.cached, output.built) == (2, [], [])
