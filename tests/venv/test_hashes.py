"""Test that --hash and --require-hashes work as in pip, also from a lock and in later runs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import Cli, Write
from tests.support.overlays import wheel
from uenvtool.core.errors import AnswerIsNo, BadInput
from uenvtool.venv.pylock import restrict_to_hashes
from uenvtool.venv.requirements import read_request

SMALL, OLD, NEEDS, OTHER = (f"sha256:{digit * 64}" for digit in "1230")
LOCK = f"""\
lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "needs"
version = "1.0"
archive = {{ url = "https://index/needs-1.0.tar.gz", hashes = {{ sha256 = "{NEEDS[7:]}" }} }}

[[packages]]
name = "small"
version = "1.0"
sdist = {{ url = "https://index/small-1.0.tar.gz", hashes = {{ sha256 = "{OLD[7:]}" }} }}
wheels = [
    {{ url = "https://index/small-1.0-cp312-none-any.whl", hashes = {{ sha256 = "{OLD[7:]}" }} }},
    {{ url = "https://index/small-1.0-py3-none-any.whl", hashes = {{ sha256 = "{SMALL[7:]}" }} }},
]
"""
FOLDER = '\n[[packages]]\nname = "mine"\ndirectory = { path = "/mine", editable = true }\n'


def confined_lock(*lines: str, lock: str = LOCK, packages: tuple[str, ...] = (), setting: bool = False) -> str:
    """The lock that is left of LOCK by a requirement file of these lines."""
    Path("r.txt").write_text("\n".join(lines) + "\n")
    request = read_request(packages, ["r.txt"], [], require_hashes=setting)
    return restrict_to_hashes(lock, request)


def test_without_hashes_the_lock_is_as_it_was() -> None:
    assert confined_lock("needs", "small==1.0") == LOCK


def test_only_files_of_the_hashes_that_are_named_stay_in_the_lock() -> None:
    lock = confined_lock(f"needs==1.0 --hash={NEEDS}", "small==1.0 \\", f"  --hash={OTHER} \\", f"  --hash {SMALL}")

    small = tomlkit.parse(lock).unwrap()["packages"][1]
    assert [file["url"] for file in small["wheels"]] == ["https://index/small-1.0-py3-none-any.whl"]
    assert "sdist" not in small


def test_a_source_may_be_all_that_is_left() -> None:
    without_wheel = LOCK.replace(
        f'cp312-none-any.whl", hashes = {{ sha256 = "{OLD[7:]}', 'cp312-none-any.whl", hashes = { sha256 = "'
    )

    lock = confined_lock(f"needs==1.0 --hash={NEEDS}", f"small==1.0 --hash={OLD}", lock=without_wheel)

    small = tomlkit.parse(lock).unwrap()["packages"][1]
    assert set(small) == {"name", "version", "sdist"}


def test_hashes_of_constraints_and_of_a_url_count_and_what_both_name_is_allowed() -> None:
    Path("c.txt").write_text(f"small==1.0 --hash={SMALL} --hash={OTHER}\nneeds --hash={NEEDS}\n")

    lock = confined_lock("-c c.txt", f"small --hash={SMALL} --hash={OLD}", "needs==1.0")

    assert SMALL[7:] in lock
    assert OLD[7:] not in lock
    url = f"needs @ https://index/needs-1.0.tar.gz#sha256={NEEDS[7:]}"
    assert NEEDS[7:] in confined_lock("--require-hashes", url, f"small==1.0 --hash={SMALL}")


def test_a_folder_and_a_word_of_the_command_line_need_hashes_too(write: Write) -> None:
    write("project/pyproject.toml", "[project]\nname = 'mine'\nversion = '1'\n")

    with pytest.raises(BadInput) as refused:
        confined_lock("-e ./project", f"small==1.0 --hash={SMALL}", lock=LOCK + FOLDER, packages=("needs==1.0",))

    assert "needs has no --hash" in str(refused.value)
    assert "r.txt:1:1: mine is a directory or a repository, which has no hash" in str(refused.value)


NAMED = f"needs==1.0 --hash={NEEDS}"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [NAMED, f"small==1.0 --hash={OTHER}"],
            f"r.txt:2:1: small 1.0: no file has one of the given hashes.*the index has {OLD}",
        ),
        (["small==1.0 --hash=md5:0", NAMED], "r.txt:1:1: small 1.0: no file has one of the given hashes"),
        (["small==1.0 --hash=sha256:zz", NAMED], "r.txt:1:1: small 1.0: no file has one of the given hashes"),
        ([NAMED, f"small==1.0 --hash=sha512:{'0' * 128}"], "the index provides only sha256"),
        (["--require-hashes", NAMED, "small==1.0"], "r.txt:3:1: small has no --hash"),
        ([f"small==1.0 --hash={SMALL}", "needs==1.0"], "r.txt:2:1: needs has no --hash"),
        ([NAMED], "small, required by another package, is not pinned with =="),
        ([f"small>=1 --hash={SMALL}", NAMED], "r.txt:1:1: small is not pinned with =="),
        ([f"small==1.* --hash={SMALL}", NAMED], "r.txt:1:1: small is not pinned with =="),
    ],
)
def test_what_has_no_hash_that_is_named_or_cannot_be_checked_is_refused(lines: list[str], told: str) -> None:
    with pytest.raises(BadInput if "pinned" in told or "no --hash" in told else AnswerIsNo, match=f"(?s){told}"):
        confined_lock(*lines)


def test_an_overlay_made_from_hashes_or_again_or_from_its_lock_keeps_to_them(
    wheels: Path, no_base: None, cli: Cli, done: Cli, write: Write
) -> None:
    small = wheel(wheels, "small", "1.0")
    digest = hashlib.sha256(small.read_bytes()).hexdigest()
    write("r.txt", f"small==1.0 --hash=sha256:{digest.upper()}\n")

    done("venv", "v", "--no-base", "-r", "r.txt")
    done("venv", "w", "--no-base", "--from", "v/.uenvtool/pylock.toml")
    wheel(wheels, "small", "1.0", files={"small/extra.py": "changed = True\n"})
    again = cli("venv", "v", "--no-base", "--update")

    assert again.code == 1
    assert "small 1.0: no file has one of the given hashes" in again.stderr
    assert not list(Path("v").glob("lib/*/site-packages/small/extra.py"))
    lock = tomlkit.parse(Path("w/.uenvtool/pylock.toml").read_text()).unwrap()
    assert lock["tool"]["uenvtool"]["requests"] == [f"small==1.0 --hash=sha256:{digest}"]
