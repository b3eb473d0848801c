"""What a build takes from and gives to others: whether mirrors answer, and the key that packages are signed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import scratch_folder
from uenvtool.core.processes import Completed, run
from uenvtool.env.explain_failure import no_key
from uenvtool.env.program import Spack
from uenvtool.env.runner import answer_of, spack_variables, write_scope

REACH = Path(__file__).parent / "scripts" / "reach_mirrors.py"


def mirror_answers(
    spack: Spack, mirrors: Mapping[str, object], filled: str, scope: Path | None = None
) -> dict[str, str]:
    """Ask mirrors, by Spack itself, whether they are there; gives their names, each with why it is not, or "".

    mirrors: as Spack's configuration has them. filled: the one that is to be filled. scope: a folder of Spack's
    configuration, whose mirrors are asked too. Raises ToolFailed if Spack fails.
    """
    with scratch_folder() as own:
        write_scope(own, {"mirrors:": dict(mirrors), "repos:": {}})
        done = _run(spack, [own, *([scope] if scope else [])], "python", REACH, filled)
    if done.code != 0:
        raise ToolFailed(f"Spack cannot ask the mirrors: {done.reason}", hint=f"its command: `{done.command}`")
    found: dict[str, str] = answer_of(done)
    return found


def require_key(spack: Spack) -> None:
    """Raise ToolFailed if Spack has no key to sign packages with."""
    with scratch_folder() as own:
        write_scope(own, {"mirrors:": {}, "repos:": {}})
        listed = _run(spack, [own], "gpg", "list", "--signing")
    if listed.code == 0 and "sec" not in listed.stdout.split():
        raise no_key(spack)


def _run(spack: Spack, scopes: Sequence[Path], *words: str | Path) -> Completed:
    """Run a command of Spack that needs no packages: it fetches no repository of them. scopes: see `spack -C`."""
    options = [word for scope in scopes for word in ("-C", scope)]
    return run([spack.program, "--color", "never", *options, *words], env=spack_variables({}))
