"""Test the detection of the base: a loaded view, a container, a named Python, or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Loaded, Write
from tests.support.kills import FROM_HERE
from tests.support.overlays import LAYOUTS, BaseHere, backend, inside, install, run, wheel
from tests.support.programs import program
from tests.support.pythons import python_of
from uenvtool.venv.base import PLAIN, find, label, read_base, this_command


@pytest.fixture
def activated(place: Path, no_base: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plain virtual environment with a torch, which is activated."""
    environment = place / "active"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    install(site, wheel(place / "wheels", "torch", "2.6.0"))
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    monkeypatch.setenv("PATH", f"{environment}/bin", prepend=os.pathsep)
    return environment


def test_an_environment_that_is_activated_is_a_base_only_if_it_is_named(activated: Path) -> None:
    (site,) = activated.glob("lib/python3*/site-packages")
    other = str(Path(sys.base_prefix, "bin", "python3"))

    named = read_base(find(str(activated / "bin" / "python"), os.environ), os.environ)
    unnamed = read_base(find(other, os.environ), {**os.environ, "PYTHONPATH": str(site)})

    assert set(named.packages) == {"torch"}
    assert "torch" not in unnamed.packages


@pytest.mark.parametrize(("container", "is_base"), [("/images/rocm.sif", True), ("", False)])
def test_an_image_whose_packages_lie_in_an_environment_is_a_base(
    activated: Path, container: str, is_base: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if container:
        monkeypatch.setenv("APPTAINER_CONTAINER", container)

    found = find(None, os.environ)

    assert (found.python == str(activated / "bin" / "python3")) is is_base


LOADS = dict.fromkeys(LAYOUTS[:3], "uenv start /images/stack.squashfs --view=default")
LOADS |= {"conda": "conda activate {root}", "module": "module load craype pytorch/2.6.0"}


@pytest.mark.parametrize("layout", LOADS)
def test_a_view_or_what_the_host_puts_on_path_is_the_base_and_its_symlink_is_not_followed(
    loaded: Loaded, layout: str
) -> None:
    here = loaded(layout)
    install(here.site, wheel(here.root.parent, "torch", "2.6.0.post300"))

    found = read_base(find(None, os.environ), os.environ)

    assert found.python == str(here.python)
    assert found.found_base.root == ("" if layout in ("conda", "module") else str(here.root))
    assert found.folders[0] == str(here.site)
    assert found.packages["torch"].version == "2.6.0.post300"
    assert found.found_base.load == LOADS[layout].format(root=here.root)


@pytest.mark.parametrize(("layout", "home"), [("conda", "/root"), ("module", "{root}/..")])
def test_a_conda_without_torch_or_a_python_of_the_users_is_no_base(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, layout: str, home: str
) -> None:
    here = loaded(layout)
    monkeypatch.setenv("HOME", os.path.normpath(home.format(root=here.root)))

    assert find(None, os.environ).kind == PLAIN


@pytest.mark.parametrize("words", [("--no-base",), ()])
def test_a_plain_environment_is_made_where_nothing_is_loaded_and_said_if_nobody_asked_for_it(
    no_base: None, wheels: Path, done: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """On a system of uenvs only if it is asked for, once: see tests/refusals/venv.yaml."""
    wheel(wheels, "torch", "2.9.0")
    wheel(wheels, "light", "1.0", requires=("torch",))
    if words:
        monkeypatch.setenv("CLUSTER_NAME", "clariden")

    answer = done("venv", "v", "light", *words)
    done("venv", "v", "light")

    assert inside("v") == {"light", "torch"}
    assert "  resolving on /" in answer.stderr
    assert ("warning: no base is loaded here: this is a plain environment" in answer.stderr) is not words


def test_a_container_without_torch_gets_one_of_the_index_if_that_is_said(
    loaded: Loaded, wheels: Path, done: Cli
) -> None:
    loaded("container")
    wheel(wheels, "torch", "2.9.0", requires=("nvidia-cublas-cu12",))
    wheel(wheels, "nvidia-cublas-cu12", "12.4.5.8")
    wheel(wheels, "light", "1.0", requires=("torch",))

    answer = done("venv", "v", "light", "--override", "torch")

    assert inside("v") == {"light", "torch", "nvidia_cublas_cu12"}
    (warning,) = [line for line in answer.stderr.splitlines() if line.startswith("warning: ")]
    assert "torch 2.9.0 is from the package index" in warning  # and no word of a torch that the base has not


def test_the_views_packages_are_found_also_where_another_view_unset_its_variables(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    here = loaded("pythonpath")
    install(here.site, wheel(here.root.parent, "tool", "1.0"))
    overlay = place / "user-tools"
    (overlay / "bin").mkdir(parents=True)
    (overlay / "bin" / "python").symlink_to(here.python)
    (overlay / "meta").mkdir()
    (overlay / "meta" / "env.json").write_text(json.dumps({"views": {"venv": {"root": str(overlay)}}}))
    (overlay / "pyvenv.cfg").write_text("uenvtool-base = /somewhere\n")
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setenv("UENV_VIEW", f"{overlay}:mine:venv,{os.environ['UENV_VIEW']}")

    found = read_base(find(None, os.environ), os.environ)

    assert found.python == str(here.python)
    assert found.packages["tool"].version == "1.0"


def test_the_users_own_pythonpath_is_not_the_uenvs(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    here = loaded("pythonpath")
    install(place / "mine", wheel(place, "mine", "1.0"))
    monkeypatch.setenv("PYTHONPATH", f"{place / 'mine'}:{here.site}")

    found = read_base(find(None, os.environ), os.environ)

    assert str(place / "mine") not in found.folders
    assert "mine" not in found.packages


def test_the_fingerprint_changes_with_what_the_base_has(loaded: Loaded) -> None:
    here = loaded("pythonpath")
    prints = []
    for version in ("1.0", "1.0", "1.1"):
        for old in here.site.glob("tool-*"):
            for path in sorted(old.iterdir()):
                path.unlink()
            old.rmdir()
        install(here.site, wheel(here.root.parent, "tool", version))
        prints.append(read_base(find(None, os.environ), os.environ).fingerprint())

    assert prints[0] == prints[1] != prints[2]


def test_a_python_is_named_by_program_folder_or_name(
    no_base: None, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "env" / "bin").mkdir(parents=True)
    (place / "env" / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{place}/env/bin")

    for named in ("env", "env/bin/python3", f"{place}/env/bin/python3", "python3"):
        assert find(named, os.environ).python == f"{place}/env/bin/python3"


def test_a_uenv_is_loaded_for_the_command_by_the_uenv_client(
    no_base: None, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = program(place / "bin" / "uenv", 'for word in "$@"; do printf "%s\\n" "$word"; done')
    env = {**os.environ, "PATH": f"{client.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    words = ["venv", "a b", "six", "--uenv", "pytorch/v2.6.0:v1", "--view=other", "--squash"]

    done = run([sys.executable, "-m", "uenvtool", *words], env)

    assert done.stdout.splitlines() == [
        *("run", "pytorch/v2.6.0:v1", "--view=other", "--", sys.executable, "-E", "-m", "uenvtool"),
        *("venv", "a b", "six", "--squash"),
    ]


def test_what_follows_two_dashes_is_passed_on_as_it_is() -> None:
    assert this_command(["/bin/uenvtool", "venv", "--uenv=x", "v", "--", "--view"])[2:] == [
        *("/bin/uenvtool", "venv", "v", "--", "--view"),
    ]


def test_the_tool_itself_does_not_take_the_bases_packages(place: Path) -> None:
    for name in ("typer", "yaml", "packaging", "tomlkit"):
        (place / "base" / name).mkdir(parents=True)
        (place / "base" / name / "__init__.py").write_text("raise ImportError('for another Python')\n")

    done = run([sys.executable, "-c", FROM_HERE, "venv", "--help"], {**os.environ, "PYTHONPATH": str(place / "base")})

    assert done.returncode == 0, done.stderr
    assert "--squash" in done.stdout


def test_a_stored_image_is_named_by_its_label_if_the_client_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: BaseHere
) -> None:
    digest = "a1" * 32
    record = {"name": "stack", "version": "v1", "tag": "rc1", "system": "clariden", "uarch": "gh200", "digest": digest}
    answer = json.dumps({"records": [record, {**record, "tag": "rc2"}]})
    first = "stack/v1:rc1@clariden%gh200"
    names = {
        "": first,
        "stack": first,
        "stack/v1": first,
        "stack/v1:rc2": "stack/v1:rc2",
        "stack/v1:rc1": "stack/v1:rc1",
    }
    client = program(tmp_path / "uenv", f'[ "$*" = "image ls --json" ] && echo \'{answer}\'')
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    assert label(f"/repo/images/{digest}/store.squashfs", environ) == "stack/v1:rc1@clariden%gh200"
    assert label(f"/repo/images/{'b2' * 32}/store.squashfs", environ) == ""
    assert label("/scratch/stack.squashfs", environ) == ""
    view = {"UENV_VIEW": f"{here.root.parents[1]}:stack:default"}
    view["UENV_MOUNT_LIST"] = f"/repo/images/{digest}/store.squashfs:{here.root.parents[1]}"
    for option, expected in names.items():
        assert find(None, {**environ, **view, "UENVTOOL_UENV": option}).image == expected
    client.write_text("#!/bin/sh\necho no json\n")
    assert label(f"/repo/images/{digest}/store.squashfs", environ) == ""


@pytest.mark.parametrize("is_container", [False, True])
def test_an_overlay_is_not_made_again_on_what_is_here_because_its_base_is_not_loaded(
    here: BaseHere, done: Cli, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, is_container: bool
) -> None:
    done("venv", "v")
    for name in here.environment:
        monkeypatch.delenv(name)
    here.python.unlink()
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    monkeypatch.setenv("UENVTOOL_ROOT", str(place))
    if is_container:
        (place / ".dockerenv").touch()

    answer = cli("venv", "v", "--update")

    assert answer.code == 1
    assert "the base of v, stack, is not loaded" in answer.stderr
    assert "uenv start /images/stack.squashfs --view=default" in answer.stderr


def test_an_overlay_of_a_container_works_where_its_base_is(
    loaded: Loaded, wheels: Path, cli: Cli, done: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a virtual machine that was taken for a container."""
    here = loaded("container")
    install(here.site, wheel(place / "old", "torch", "2.6.0"))
    wheel(wheels, "small", "1.0")
    done("venv", "v", "small")
    monkeypatch.delenv("APPTAINER_CONTAINER")
    job = ("job", "-s", "frontier", "-A", "a", "--runtime", "modules", "--venv", "v", "--dry-run", "--", "hostname")

    there = done(*job)
    install(here.site, wheel(place / "old", "other", "1.0"))  # as the Python at the same path of another machine
    elsewhere = cli(*job)

    assert "belongs to a container" not in there.stderr
    assert elsewhere.code == 2
    assert "belongs to a container" in elsewhere.stderr
    assert "create the environment in the base of modules" in elsewhere.stderr
    assert "(not available" in done("show", "v").stdout


def test_another_base_is_told_with_the_one_before_also_if_that_has_no_name(
    loaded: Loaded, wheels: Path, done: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded("container")
    monkeypatch.delenv("APPTAINER_CONTAINER")
    monkeypatch.setenv("UENVTOOL_ROOT", str(place))
    wheel(wheels, "small", "1.0")
    (place / ".dockerenv").touch()
    done("venv", "v", "small")
    (place / ".dockerenv").unlink()

    answer = done("venv", "v", "--base", sys.executable)

    assert f"warning: this overlay was made on {here.python} of a container (Python {here.version}" in answer.stderr
    assert f"now has another base, {sys.executable} (Python " in answer.stderr
    assert "which must be loaded wherever the overlay is used" in answer.stderr


def test_a_base_that_is_too_old_is_told(no_base: None, cli: Cli) -> None:
    answer = cli("venv", "v", "--base", python_of("3.9"))

    assert answer.code == 2
    assert "Python 3.9" in answer.stderr


def test_a_build_takes_what_it_asks_for_before_what_the_base_has(
    here: BaseHere, done: Cli, wheels: Path, write: Write, place: Path
) -> None:
    install(here.site, wheel(place / "old", "backend", "1.0"))
    wheel(wheels, "backend", "2.0", files={"backend/__init__.py": backend("built", "1.0")})
    text = "[project]\nname = 'built'\nversion = '1.0'\n[build-system]\nrequires = ['backend>=2']\n"
    write("proj/pyproject.toml", text + "build-backend = 'backend'\n")

    assert "built" in done("venv", "v", "./proj").stdout
