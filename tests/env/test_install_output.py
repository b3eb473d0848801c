"""Test parsing the output of `spack install` of Spack v1.1.0 and v1.2.0: done, cached, built and in progress."""

from __future__ import annotations

from uenvtool.env.output import InstallOutput

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
[+] /user-environment/linux-zen2/py-pip-23.1.2-zbcmx7z4ohicxsm7hjhotex5732hwk4i
"""


def test_each_package_is_told_once_when_it_is_begun() -> None:
    output = InstallOutput(total=3)

    told = [output.text() for line in (EXTERNAL + "\n" + FROM_CACHE + FROM_SOURCE).splitlines() if output.take(line)]

    assert told == [
        "1 done, 2 left; unpacking python-venv-1.0",
        "2 done, 1 left, 1 cached; building py-pip-23.1.2",
    ]
    assert (len(output.done), output.cached, output.built) == (3, ["python-venv-1.0"], ["py-pip-23.1.2"])


def test_what_an_earlier_run_installed_is_done_and_neither_cached_nor_built() -> None:
    output = InstallOutput(total=2)

    for line in (EXTERNAL, f"[+] /user-environment/linux-zen2/zstd-1.5.6-{HASH}"):
        assert not output.take(line)

    assert (len(output.done), output.cached, output.built) == (2, [], [])


OF_1_2 = """\
[e] acw757z python@3.11.2 /usr (0s)
[ ] hp7sour python-venv@1.0 fetching from build cache (0s)
[ ] zbcmx7z py-pip@23.1.2 fetching from build cache (0s)
[ ] hp7sour python-venv@1.0 relocating (0s)
[+] hp7sour python-venv@1.0 /user-environment/linux-zen2/python-venv-1.0-hp7sourffr4wafert2hguioovrf3rufi (1s)
[ ] zbcmx7z py-pip@23.1.2 staging (0s)
[ ] q7z6cxi zstd@1.5.6 staging
[ ] zbcmx7z py-pip@23.1.2 install (2s)
[x] q7z6cxi zstd@1.5.6 failed: /user-environment/.uenvtool-install/stage/spack-stage-zstd-1.5.6-q7z6cxi-a1.log (1s)
[+] zbcmx7z py-pip@23.1.2 /user-environment/linux-zen2/py-pip-23.1.2-zbcmx7z4ohicxsm7hjhotex5732hwk4i (3s)
"""


def test_packages_that_are_built_at_once_are_told_once_each() -> None:
    output = InstallOutput(total=5, done={"xz5hoxd"})  # one is there of an earlier run, of which this one says nothing

    told = [output.text() for line in OF_1_2.splitlines() if output.take(line)]

    assert told == [
        "2 done, 3 left; unpacking python-venv-1.0",
        "2 done, 3 left; unpacking py-pip-23.1.2",
        "3 done, 2 left, 1 cached; building zstd-1.5.6",
    ]
    assert (len(output.done), output.cached, output.built) == (4, ["python-venv-1.0"], ["py-pip-23.1.2"])
