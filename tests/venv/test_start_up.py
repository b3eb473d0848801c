"""Test the start-up hook and the activation scripts: variables, failures and costs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.needs import need
from tests.support.overlays import BaseHere, clean_environment, install, run, seen, wheel
from tests.support.tracing import traced
from tests.venv.conftest import Begun

PATHS = "import json, sys; print(json.dumps(sys.path))"


@pytest.fixture
def tmp_path(begun: Begun) -> Path:
    return begun.emptied()


@pytest.fixture
def here(here: BaseHere, wheels: Path, place: Path) -> BaseHere:
    """A base with tool 1; tool 2 is to be had, which says its version."""
    install(here.site, wheel(place.parent / "old", "tool", "1.0"))
    wheel(wheels, "tool", "2.0", files={"tool/__main__.py": "import tool; print(tool.__version__)\n"})
    return here


@pytest.fixture
def v(here: BaseHere, done: Cli, begun: Begun) -> Path:
    """An overlay on that base with tool 2."""
    begun.fill(lambda: done("venv", "v", "tool==2.0"))
    return Path("v")


def paths(python: str | Path, **env: str) -> list[str]:
    completed = run([python, "-c", PATHS], clean_environment(**env))
    assert (completed.returncode, completed.stderr) == (0, "")
    found: list[str] = json.loads(completed.stdout)
    return found[1:]


def base_folders(folder: Path) -> list[str]:
    """What the overlay's configuration names as its base: the view's packages, and the interpreter's own."""
    line = next(line for line in (folder / "pyvenv.cfg").read_text().splitlines() if line.startswith("uenvtool-base ="))
    return line.partition("= ")[2].split(":")


def test_the_order_is_standard_library_overlay_base_rest(here: BaseHere, v: Path, place: Path) -> None:
    (place / "mine").mkdir()
    (place / "added").mkdir()
    (here.site / "base.pth").write_text(f"{place / 'added'}\n")

    found = paths("v/bin/python", PYTHONPATH=f"{place / 'mine'}:{here.site}")

    standard = [path for path in found if "python3" in Path(path).name or path.endswith(("lib-dynload", ".zip"))]
    own = next(path for path in found if path.startswith(str(place / "v")))
    base = base_folders(place / "v")
    assert base[0] == str(here.site)
    assert found == [*standard, own, *base, str(place / "mine")]  # .pth files of PYTHONPATH are not read


def test_pth_files_of_the_bases_own_site_are_read_once(loaded: Loaded, wheels: Path, done: Cli, place: Path) -> None:
    base = loaded("pythonuserbase")
    (place / "added").mkdir()
    (base.site / "base.pth").write_text(f"{place / 'added'}\n")
    wheel(wheels, "tool", "2.0")
    done("venv", "v", "tool")

    for env in ({}, base.environment):
        found = paths("v/bin/python", **env)

        assert found.count(str(place / "added")) == 1
        assert found.index(str(place / "v" / f"lib/python{base.version}/site-packages")) < found.index(str(base.site))


@pytest.mark.parametrize("damage", ["no pyvenv.cfg line", "a hook that is not there"])
def test_a_damaged_overlay_still_starts_python(v: Path, damage: str, place: Path) -> None:
    config = place / "v" / "pyvenv.cfg"
    if damage == "no pyvenv.cfg line":
        config.write_text("".join(line for line in config.read_text().splitlines(True) if "uenvtool" not in line))
    else:
        next(place.glob("v/lib/python3*/site-packages/_uenvtool_overlay.py")).unlink()

    completed = run(["v/bin/python", "-c", "import tool; print(tool.__version__)"], clean_environment())

    assert completed.stdout == "2.0\n", completed.stderr


def test_an_overlay_whose_base_lacks_a_folder_starts_only_if_that_is_said(here: BaseHere, v: Path) -> None:
    here.site.rename(here.site.with_name("gone"))

    ended = run(["v/bin/python", "-m", "tool"], clean_environment())
    started = run(["v/bin/python", "-m", "tool"], clean_environment(UENVTOOL_ANY_BASE="1"))

    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(r".* was not found.*load it first: uenv start /images/stack.squashfs.*\n", ended.stderr)
    assert (started.returncode, started.stdout) == (0, "2.0\n")


def test_a_folder_of_the_base_that_held_nothing_may_be_gone(loaded: Loaded, wheels: Path, done: Cli) -> None:
    here = loaded("pythonuserbase")
    done("venv", "v")
    here.site.rmdir()

    assert run(["v/bin/python", "-c", "pass"], clean_environment()).stderr == ""


def test_an_overlay_on_a_python_that_is_gone_says_how_it_is_made_again(
    loaded: Loaded, wheels: Path, done: Cli, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded("conda")
    for name in here.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done("venv", "v", "--base", here.python)
    here.root.rename(here.root.with_name("gone"))

    ended, refused = run(["v/bin/python", "-c", "pass"], clean_environment()), cli("shell", "v", "--", "true")

    assert (ended.returncode, refused.code) == (1, 1)
    for told in (ended.stderr, refused.stderr):
        assert "was not found" in told
        assert "recreate the overlay with another Python: " in told


def test_arguments_and_exit_codes_go_through_the_wrapper(here: BaseHere, v: Path) -> None:
    words = ["", "a b", "*", "$HOME", "'", '"', "\n", "--", "-c"]

    code = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(7)"
    env = clean_environment(BASH_ENV="/nonexistent", PYTHONHOME="")
    completed = run([f"v/bin/python{here.version}", "-c", code, *words], env)

    assert completed.returncode == 7
    assert json.loads(completed.stdout) == words


def test_an_overlay_lies_on_an_overlay(v: Path, done: Cli, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(wheels, "more", "1.0", files={"more/__init__.py": "import tool; print(tool.__version__)\n"})
    for name in ("UENV_VIEW", "UENV_MOUNT_LIST", "PYTHONPATH"):
        monkeypatch.delenv(name)

    done("venv", "two", "more", "--base", "v/bin/python")

    assert run(["two/bin/python", "-c", "import more"], clean_environment()).stdout == "2.0\n"
    assert paths("two/bin/python")[-1] == base_folders(v)[-1]


def test_links_from_elsewhere_and_a_child_environment_lead_to_the_overlay(
    here: BaseHere, done: Cli, place: Path
) -> None:
    done("venv", "my v", "tool==2.0")
    (place / "bin").mkdir()
    (place / "bin" / "one").symlink_to("../my v/bin/python3")
    (place / "bin" / "two").symlink_to(place / "bin" / "one")
    made = run(["my v/bin/python", "-m", "venv", "--without-pip", "child"], clean_environment())

    assert made.returncode == 0, made.stdout
    for name in ("one", "two"):
        assert run([place / "bin" / name, "-m", "tool"], clean_environment()).stdout == "2.0\n"
    assert run(["child/bin/python", "-c", "pass"], clean_environment()).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_activation_starts_no_process(v: Path, shell: str) -> None:
    need(shell)

    def started(text: str) -> int:
        calls = traced([shell, "-c", text], "execve,fork,vfork,clone,clone3", env=clean_environment())
        return sum("CLONE_THREAD" not in line for line in calls)

    assert started("source v/bin/activate") == started("true")


def test_the_overlay_has_the_bases_commands_but_for_those_of_its_own(
    loaded: Loaded, wheels: Path, done: Cli, place: Path
) -> None:
    base = loaded("pythonuserbase")
    files = {"run/__init__.py": "import json, sys\ndef main():\n    print(json.dumps({'prefix': sys.prefix}))\n"}
    scripts = dict.fromkeys(("runit", "own", "../evil", "python3"), "run:main")
    install(base.site, wheel(place / "old", "run", "1.0", files=files, scripts=scripts))
    files = {"tool/__init__.py": 'def main():\n    print(\'{"own": "yes"}\')\n'}
    wheel(wheels, "tool", "2.0", files=files, scripts={"own": "tool:main"})
    done("venv", "v", "tool")

    assert seen(["v/bin/runit"], clean_environment()) == {"prefix": str(place / "v")}
    assert seen(["v/bin/own"], clean_environment()) == {"own": "yes"}
    # the machine's own Python may bring commands of packages that it has
    ours = {"activate", "python", "python3", f"python{base.version}", "runit", "own"}
    assert ours <= set(os.listdir("v/bin"))
    assert not list(place.rglob("evil"))
    assert seen(["v/bin/python3", "-c", "print('{}')"], clean_environment()) == {}
