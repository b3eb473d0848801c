"""What a build takes from and gives to others: whether mirrors answer, and the keys that packages are signed with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import private_folder, scratch_folder
from uenvtool.core.tools import Completed, run
from uenvtool.env.explain_failure import no_key
from uenvtool.env.program import Spack
from uenvtool.env.runner import answer_of, spack_variables, write_scope
from uenvtool.knowledge.version import Version

ASKS_FOR_TRUST = Version("1.2")
"""From here on `spack gpg trust` asks, where the earlier ones took the key without a word."""
REACH = Path(__file__).parent / "scripts" / "reach_mirrors.py"


def unreachable(spack: Spack, mirrors: Mapping[str, object], filled: str) -> dict[str, str]:
    """Ask mirrors, by Spack itself, whether they are there; gives the names of those that are not, with the reason.

    mirrors: as Spack's configuration has them. filled: the one that is to be filled. Raises ToolFailed if Spack fails.
    """
    done = _run(spack, "python", REACH, filled, mirrors=mirrors)
    if done.code != 0:
        raise ToolFailed(f"Spack cannot ask the mirrors: {done.reason}", hint=f"its command: `{done.command}`")
    found: dict[str, str] = answer_of(done)
    return found


@contextlib.contextmanager
def keyring(spack: Spack, keys: Sequence[Path]) -> Iterator[Path | None]:
    """Yield a folder with these keys alone, for Spack; None without keys: Spack's own keyring counts.

    Raises ToolFailed if a file has no key.
    """
    if not keys:
        yield None
        return
    unasked = ["--yes-to-all"] if Version(spack.version) >= ASKS_FOR_TRUST else []
    with scratch_folder() as scratch:
        ring = private_folder(scratch / "keys")
        for key in keys:
            done = _run(spack, "gpg", "trust", *unasked, key.absolute(), ring=ring)
            if done.code != 0:
                hint = "`spack gpg export FILE` writes one"
                raise ToolFailed(f"{key} has no key that can be taken: {done.reason}", hint=hint)
        yield ring


def require_key(spack: Spack, ring: Path | None = None) -> None:
    """Raise ToolFailed if there is no key to sign packages with, in the keyring or, without one, in Spack's own."""
    listed = _run(spack, "gpg", "list", "--signing", ring=ring)
    if listed.code == 0 and "sec" not in listed.stdout.split():
        raise no_key(spack)


def keyring_variables(ring: Path | None) -> dict[str, str]:
    """Return the variables that have Spack use a keyring."""
    return {"SPACK_GNUPGHOME": str(ring)} if ring else {}


def _run(
    spack: Spack, *words: str | Path, mirrors: Mapping[str, object] | None = None, ring: Path | None = None
) -> Completed:
    """Run a command of Spack that needs no packages: it fetches no repository of them."""
    with scratch_folder() as scope:
        write_scope(scope, {"mirrors:": dict(mirrors or {}), "repos:": {}})
        words = (spack.program, "--color", "never", "-C", scope, *words)
        return run(words, env=spack_variables(keyring_variables(ring)))
