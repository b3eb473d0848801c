"""Test the part of a store that is packed: only the lock's packages, with valid bytecode and reproducible bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Cli, Write
from tests.support import peers
from tests.support.overlays import unpack
from uenvtool.core.errors import BadInput
from uenvtool.env.installable import Installable, read_installable, together
from uenvtool.image.diff import diff
from uenvtool.image.pack import pack
from uenvtool.image.programs import find_programs
from uenvtool.image.store import image_tree
from uenvtool.image.verify import examined

PYTHON, SIX, ZLIB = ("p" * 32, "s" * 32, "z" * 32)
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
SITE = f"linux-zen/py-six-1.0-{SIX}/lib/python{VERSION}/site-packages"
TAG = sys.implementation.cache_tag


@pytest.fixture
def environment(tmp_path: Path) -> Installable:
    """A resolved environment of one Python package, on this Python, which its system brings."""
    mount, folder = tmp_path / "mount", tmp_path / "environment"
    mount.mkdir()
    folder.mkdir()
    specs = {
        PYTHON: {"name": "python", "version": f"{VERSION}.0", "external": {"path": sys.base_prefix}},
        SIX: {"name": "py-six", "version": "1.0", "dependencies": [{"name": "python", "hash": PYTHON}]},
    }
    lock = {"roots": [{"hash": SIX, "spec": "py-six"}], "concrete_specs": specs, "spack": {"version": "1.1.0"}}
    (folder / "spack.lock").write_text(json.dumps(lock))
    (folder / "spack.yaml").write_text(
        "# Generated\n#\n# small: one package\n# of Python.\nspack:\n"
        f"  config: {{install_tree: {{root: {mount}}}}}\n  view: {{default: {{root: {mount}/env/default}}}}\n"
    )
    return read_installable(folder)


def filled_store(
    store: Path, environment: Installable, *, when: float, more: Mapping[str, tuple[str, str]] | None = None
) -> Path:
    """A store as Spack leaves it, installed at a time. more: packages of other locks, by hash."""
    packages = {SIX: ("py-six", "1.0"), **(more or {})}
    rows = {
        key: {
            "spec": {"name": name, "version": version, "dependencies": [{"name": "python", "hash": PYTHON}]},
            "path": f"{environment.mount}/linux-zen/{name}-{version}-{key}",
            "installed": True,
            "explicit": name != "py-six",
            "ref_count": 7,
            "installation_time": when,
        }
        for key, (name, version) in packages.items()
    }
    python = {"spec": {"name": "python", "version": f"{VERSION}.0"}, "path": sys.base_prefix, "installed": True}
    texts = {
        ".spack-db/index.json": json.dumps({"database": {"version": "8", "installs": {**rows, PYTHON: python}}}),
        ".spack-db/failures/x": "",
        f"{SITE}/six.py": "import sys\nx = {'a', 'b', 'c'}\n",
        **{f"linux-zen/{name}-{version}-{key}/.spack/spec.json": "{}" for key, (name, version) in packages.items()},
        f"linux-zen/py-six-1.0-{SIX}/.spack/install_times.json": str(when),
        f"{SITE}/__pycache__/six.{TAG}.opt-1.pyc": "stale",
        ".uenvtool-install/spack.log": "x",
        "bin/sbang": "#!/bin/sh\n",
    }
    for name, text in texts.items():
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text(text)
    (store / SITE / "__pycache__" / f"six.{TAG}.pyc").write_text(f"stale {when}")
    view = store / "env" / "._default" / "abc" / "lib" / f"python{VERSION}" / "site-packages"
    (view / "__pycache__").mkdir(parents=True)
    for name in ("six.py", f"__pycache__/six.{TAG}.pyc", f"__pycache__/six.{TAG}.opt-1.pyc"):
        (view / name).symlink_to(f"{environment.mount}/{SITE}/{name}")
    records = store / "env" / "._default" / "abc" / ".spack" / "py-six"
    records.mkdir(parents=True)
    for name in ("spec.json", "install_times.json"):
        (records / name).symlink_to(f"{environment.mount}/linux-zen/py-six-1.0-{SIX}/.spack/{name}")
    (records / "of-the-system").symlink_to("/etc/passwd")
    (store / "env" / "default").symlink_to(f"{environment.mount}/env/._default/abc")
    (store / "env" / "._default" / "old").mkdir()
    return store


def image_of(store: Path, environment: Installable, target: Path) -> Path:
    """The image of an environment that was installed into a store."""
    scratch = target.with_name(f"{target.name}.scratch")
    scratch.mkdir()
    pack(find_programs(), image_tree([environment], store, scratch), target, scratch)
    return target


def unpacked(environment: Installable, place: Path, **more: Any) -> Path:
    """The folder that the image of an environment unpacks into. more: for the store that it is made of."""
    store = filled_store(place / "store", environment, **{"when": 1.0, **more})
    unpack(image_of(store, environment, place / "image.squashfs"), place / "image")
    return place / "image"


REPOS = """\
  repos:
    builtin:
      git: 'https://github.com/spack/spack-packages.git'
      {pin}
  packages: {{gcc: {{externals: [{{spec: gcc@12.2.0 languages=c, prefix: /usr}}]}}}}
"""
READS_SPACK = """\
import importlib.machinery, importlib.util, json, sys, types
sys.modules["jinja2"] = types.ModuleType("jinja2")  # which what is called here does not need
loader = importlib.machinery.SourceFileLoader("uenv_spack", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("uenv_spack", loader))
loader.exec_module(module)
module.known_compilers = ["gcc"]
found = module.get_spack_uenv()
print(json.dumps([found, module.read_compiler_config(found["config-path"], 2)]))
"""


@pytest.mark.parametrize(
    ("pin", "ref", "commit", "header", "of_spack"),
    [
        (f"commit: {'a' * 40}", "a" * 40, "a" * 40, "", "v1.1.0"),
        (f"tag: v2026.06.0  # commit {'b' * 40}", "v2026.06.0", "b" * 40, f"v1.1.0, commit {'c' * 40}", "c" * 40),
        ("tag: v2026.06.0", "v2026.06.0", "v2026.06.0", f"v1.2.0, commit {'c' * 40}", "v1.1.0"),
        ("branch: releases/v2026.06", "releases/v2026.06", "releases/v2026.06", "", "v1.1.0"),
    ],
)
def test_real_uenv_spack_finds_spack_its_packages_and_the_compiler(
    environment: Installable, tmp_path: Path, pin: str, ref: str, commit: str, header: str, of_spack: str
) -> None:
    manifest = environment.folder / "spack.yaml"
    manifest.write_text(f"#   Spack {header}\n{manifest.read_text()}{REPOS.format(pin=pin)}")
    folder = unpacked(read_installable(environment.folder), tmp_path)
    values = json.loads((folder / "meta" / "env.json").read_text())["views"]["spack"]["env"]["values"]["scalar"]
    values = {**values, "UENV_SPACK_CONFIG_PATH": str(folder / "config")}

    program = [sys.executable, "-c", READS_SPACK, peers.UENV_SPACK.need() / "uenv-spack"]
    done = subprocess.run(program, env=values, capture_output=True, text=True, check=True)

    found, compilers = json.loads(done.stdout)
    assert found["version"] == 2
    assert found["spack"] == {"commit": of_spack, "ref": "v1.1.0", "url": "https://github.com/spack/spack.git"}
    assert (found["packages"]["ref"], found["packages"]["commit"]) == (ref, commit)
    assert compilers == {"gcc": "gcc@12.2.0"}


def test_the_same_bytes_come_from_a_fresh_store_and_one_that_others_used(
    environment: Installable, tmp_path: Path
) -> None:
    fresh = filled_store(tmp_path / "fresh", environment, when=1.0)
    used = filled_store(tmp_path / "used", environment, when=2.0, more={ZLIB: ("zlib", "1.2")})

    first = image_of(fresh, environment, tmp_path / "first.squashfs")
    second = image_of(used, environment, tmp_path / "second.squashfs")

    assert first.read_bytes() == second.read_bytes()
    assert examined(first).problems == []
    assert diff(str(first), str(environment.folder)).data == []


def test_its_bytecode_is_used_and_its_packages_are_the_locks_alone(environment: Installable, tmp_path: Path) -> None:
    folder = unpacked(environment, tmp_path, more={ZLIB: ("zlib", "1.2")})

    words = [sys.executable, "-v", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import six", folder / SITE]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stderr

    assert f"code object from '{folder / SITE}/six.py'" not in told
    assert f"{folder / SITE}/__pycache__/six.{TAG}.pyc" in told
    assert "stale" not in told
    assert os.listdir(folder / SITE / "__pycache__") == [f"six.{TAG}.pyc"]
    site = folder / "env" / "._default" / "abc" / "lib" / f"python{VERSION}" / "site-packages"
    assert os.listdir(site / "__pycache__") == [f"six.{TAG}.pyc"]
    assert sorted(os.listdir(folder)) == [".spack-db", "bin", "config", "env", "linux-zen", "meta"]
    assert os.listdir(folder / "linux-zen") == [f"py-six-1.0-{SIX}"]
    assert os.listdir(folder / "linux-zen" / f"py-six-1.0-{SIX}" / ".spack") == ["spec.json"]
    assert os.listdir(folder / "env" / "._default") == ["abc"]
    records = folder / "env" / "._default" / "abc" / ".spack" / "py-six"
    assert sorted(os.listdir(records)) == ["of-the-system", "spec.json"]
    env = json.loads((folder / "meta" / "env.json").read_text())
    assert (env["name"], env["description"]) == (environment.name, "one package of Python.")
    assert os.listdir(folder / ".spack-db") == ["index.json"]
    installs = json.loads((folder / ".spack-db" / "index.json").read_text())["database"]["installs"]
    assert sorted(installs) == [PYTHON, SIX]
    assert installs[PYTHON]["ref_count"] == 1
    assert (installs[SIX]["explicit"], installs[SIX]["ref_count"]) == (True, 0)  # as if they came at once


@pytest.mark.parametrize("part", ["set: {'A=1; touch x; B': v}", "unset: ['A; touch x']", "prepend_path: {'A B': /x}"])
def test_a_name_that_a_shell_would_run_is_refused(environment: Installable, tmp_path: Path, part: str) -> None:
    store = filled_store(tmp_path / "store", environment, when=1.0)
    manifest = environment.folder / "spack.yaml"
    manifest.write_text(f"{manifest.read_text()}  env_vars: {{{part}}}\n")

    with pytest.raises(BadInput, match="is not a valid variable name"):
        image_of(store, read_installable(environment.folder), tmp_path / "x.squashfs")


def beside(environment: Installable, folder: Path) -> Installable:
    """Another environment for the same image, with a library and a compiler that is built first."""
    folder.mkdir()
    spec = {"name": "zlib", "version": "1.2", "dependencies": []}
    lock = {"roots": [{"hash": ZLIB, "spec": "zlib"}], "concrete_specs": {ZLIB: spec}, "spack": {"version": "1.1.0"}}
    (folder / "spack.lock").write_text(json.dumps(lock))
    llvm = "/m/compilers/llvm-19.1.7"
    external = {"spec": "llvm@19.1.7", "prefix": llvm, "extra_attributes": {"compilers": {"c": f"{llvm}/bin/clang"}}}
    manifest = {
        "config": {"install_tree": {"root": environment.mount}},
        "view": {"libs": {"root": "x"}},
        "env_vars": {"set": {"LIBS": "yes"}, "prepend_path": {"PATH": f"{llvm}/bin"}},
        "packages": {"llvm:": {"buildable": False, "externals": [external]}},
    }
    (folder / "spack.yaml").write_text(json.dumps({"spack": manifest}))
    return read_installable(folder)


def test_an_image_has_no_default_view_if_the_recipe_has_none(cli: Cli, write: Write, environment: Installable) -> None:
    write("recipes/mine/recipe.yaml", SMALL.replace("view: {link: all}", "view: none"))
    assert cli("build", "mine", "--system", "local", "--no-concretize", "-o", "mine").code == 0
    (environment.folder / "spack.yaml").write_text(Path("mine/spack.yaml").read_text())

    without = read_installable(environment.folder)

    assert (environment.default_view, without.default_view, without.views) == ("default", None, ("default",))


def test_several_environments_share_a_store_and_keep_their_views_and_variables(
    environment: Installable, tmp_path: Path
) -> None:
    manifest = environment.folder / "spack.yaml"
    manifest.write_text(manifest.read_text() + REPOS.format(pin="tag: v1"))
    first, second = read_installable(environment.folder), beside(environment, tmp_path / "libs")
    for one in (first, second):
        (one.folder / "extra").mkdir()
        for name in ("reframe.yaml", "of-the-site.yaml"):
            (one.folder / "extra" / name).write_text(f"{one.view}: {{}}\n")
    placed = together([read_installable(one.folder) for one in (first, second)])
    more = {ZLIB: ("zlib", "1.2"), "o" * 32: ("other", "1")}
    store = filled_store(tmp_path / "store", environment, when=1.0, more=more)
    (store / "env" / "._libs" / "def" / "lib").mkdir(parents=True)
    (store / "env" / "libs").symlink_to(f"{environment.mount}/env/._libs/def")
    folder, scratch = tmp_path / "image", tmp_path / "scratch"
    scratch.mkdir()

    image = tmp_path / "both.squashfs"
    pack(find_programs(), image_tree(placed, store, scratch), image, scratch)

    assert examined(image).problems == []
    unpack(image, folder)
    env = json.loads((folder / "meta" / "env.json").read_text())
    assert (list(env["views"]), env["default-view"]) == (["default", "libs", "spack"], "default")
    values = {view: env["views"][view]["env"]["values"] for view in ("default", "libs")}
    assert values["libs"]["scalar"] == {"LIBS": "yes"}
    assert values["libs"]["list"]["PATH"][0]["value"] == ["/m/compilers/llvm-19.1.7/bin"]
    assert (values["default"]["scalar"], "PATH" in values["default"]["list"]) == ({}, False)
    database = json.loads((folder / ".spack-db" / "index.json").read_text())["database"]["installs"]
    assert {key: row["explicit"] for key, row in database.items()} == {PYTHON: False, SIX: True, ZLIB: True}
    packages = json.loads((folder / "config" / "packages.yaml").read_text())["packages"]
    assert {name: one["externals"][0]["spec"] for name, one in packages.items()} == {
        "gcc": "gcc@12.2.0 languages=c",
        "llvm": "llvm@19.1.7",
    }
    assert (folder / "meta" / "recipe" / "environments" / "libs" / "spack.lock").is_file()
    assert sorted(os.listdir(folder / "meta")) == ["env.json", "extra", "recipe"]
    extra = {file.name: file.read_text() for file in (folder / "meta" / "extra").glob("*.yaml")}
    assert extra == {"reframe.yaml": "default: {}\nlibs: {}\n", "of-the-site.yaml": "default: {}\n"}
    assert (folder / SITE / "__pycache__" / f"six.{TAG}.pyc").is_file()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (f"linux-zen/zlib-1.2-{ZLIB}/lib/libz.a", f"linux-zen/zlib-1.2-{ZLIB} is next to the packages"),
        (".spack-db/index.json", r"zlib@1\.2 \(/zzzzzzz\) is installed, but is not in the lock"),
    ],
)
def test_what_the_lock_does_not_have_is_wrong_in_an_image(
    environment: Installable, tmp_path: Path, name: str, problem: str
) -> None:
    folder = unpacked(environment, tmp_path)
    other = filled_store(tmp_path / "other", environment, when=1.0, more={ZLIB: ("zlib", "1.2")})
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    content = (other / name).read_bytes() if (other / name).exists() else b"x"
    (folder / name).write_bytes(content)
    words = ["mksquashfs", folder, tmp_path / "wrong.squashfs", "-quiet", "-no-progress"]
    subprocess.run(words, check=True, capture_output=True)

    found = examined(tmp_path / "wrong.squashfs").problems

    assert any(re.search(problem, line) for line in found), found
