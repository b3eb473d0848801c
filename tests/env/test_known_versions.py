"""Test that versions are compared with the package repositories that --repo names."""

from __future__ import annotations

import pytest

from tests.conftest import SMALL, Cli, Write

PACKAGES = {
    "openssl": 'class Openssl(Package):\n    version("3.4.4", sha256="x")\n    version("3.4.3")\n',
    "spack": 'version("1.1.0")\n',
    "hdf5": 'from spack.package import *\nclass Hdf5(Package):\n    version("1.14.5")\n',
    "zlib_ng": 'class ZlibNg(Package):\n    version("2.2.4")\n    version("develop", branch="develop")\n',
    "cuda": '_all = {"12.9.1": {"x86_64": "sum"}}\nfor ver in _all:\n    version(ver)\n',
    "zstd": "from spack_repo.builtin.packages.lz4.package import Lz4\nfrom ..openssl.package import Openssl\n",
    "lz4": 'from spack_repo.builtin.packages.zstd.package import Zstd\nversion(ver="1.10.0")\n',
    "bundle": "class Bundle(BundlePackage):\n    pass\n",
}
REPO = ("--repo", "builtin=packages")


@pytest.fixture(autouse=True)
def repository(write: Write) -> None:
    write("packages/repos/spack_repo/builtin/repo.yaml", "repo: {namespace: builtin}\n")
    for name, text in PACKAGES.items():
        write(f"packages/repos/spack_repo/builtin/packages/{name}/package.py", text)
    write("recipes/mine/recipe.yaml", SMALL)


@pytest.mark.parametrize(
    ("pin", "known"),
    [
        ("openssl@3.4.99", False),
        ("openssl@3.4", True),
        ("openssl@=3.4", False),
        ("openssl@3.4.3:3.4.9", True),
        ("zlib-ng@develop", True),
        ("zlib-ng@git.main=9", True),
        ("cuda@12.9.1", True),
        ("cuda@12.8", False),
        ("zstd@1.10.0", True),  # inherited
        ("zstd@3.4.4", True),
        ("zstd@9", False),
        ("lz4@1.9", False),
        ("hdf5@1.1", False),  # a version of the package spack
        ("bundle@1", True),
        ("of-another-repository@1", True),
        ("xpmem@2.9.6", True),  # an external of a system
    ],
)
def test_edit_rejects_a_version_that_no_repository_has(cli: Cli, pin: str, known: bool) -> None:
    without, answer = cli("edit", "mine", "--pin", pin, "--dry-run"), cli("edit", "mine", "--pin", pin, *REPO)

    name, _, version = pin.partition("@")
    assert without.code == 0, without.stderr
    assert answer.code == (0 if known else 2), answer.stderr
    assert (f"builtin has no version {version} of {name}" in answer.stderr) == (not known)


def test_validate_and_build_reject_a_version_that_no_repository_has(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL + "prefer: {openssl: 3.4.99}\n")

    validated, built = cli("validate", "recipes/mine", *REPO), cli("build", "mine", "--system", "local", *REPO)

    for answer in (validated, built):
        assert answer.code == 2
        assert "recipe.yaml:" in answer.stderr
        assert "builtin has no version 3.4.99 of openssl" in answer.stderr
        assert "use an existing version, such as 3.4.4, 3.4.3, or add the version under packages/" in answer.stderr
    assert cli("validate", "recipes/mine").code == 0


def test_build_only_warns_if_another_repository_may_have_the_version(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL + "prefer: {openssl: 3.4.99}\n")

    answer = cli("build", "mine", "--system", "clariden", "--no-concretize", *REPO)  # it also has the repository alps

    assert answer.code == 0, answer.stderr
    assert "builtin has no version 3.4.99 of openssl" in answer.stderr


def test_a_package_file_of_the_recipe_provides_the_version(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL + "require: {openssl: 3.4.99}\n")
    write("recipes/mine/packages/openssl/package.py", 'version("3.4.99", sha256="x")\n')
    provided = cli("validate", "recipes/mine", *REPO)
    write("recipes/mine/packages/openssl/package.py", "class Openssl(:\n")

    broken = cli("validate", "recipes/mine", *REPO)

    assert provided.code == 0, provided.stderr
    assert (broken.code, "cannot read the Spack package" in broken.stderr) == (2, True)
