"""Runs a script of the user's on an installed environment: it sees the packages where their image will have them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import make_folder, remove_tree, set_mode, write
from uenvtool.core.tools import run
from uenvtool.env.install import WITH_MOUNT, WORK
from uenvtool.env.installable import Installable
from uenvtool.env.runner import FOREIGN_VARIABLES

POST_INSTALL = "post-install"
"""The name of the script among the texts of an environment that is made an image."""
LOCAL = "local"
"""The folder of an image with what the script put there."""
LAST_LINES = 12


def run_post_install(environment: Installable, store: Path) -> None:
    """Run the script of an environment, if it has one, in a new folder LOCAL of the store.

    It sees the store at its mount point, and can write to LOCAL and to temporary files alone: the packages stay as
    the lock has them. Raises ToolFailed with the end of what it printed if it fails.
    """
    text = environment.texts.get(POST_INSTALL)
    if text is None:
        return
    script, log = store / WORK / POST_INSTALL, store / WORK / f"{POST_INSTALL}.log"
    if os.path.lexists(store / LOCAL):
        remove_tree(store / LOCAL)  # of an earlier run
    make_folder(store / LOCAL)
    write(script, text)
    set_mode(script, 0o755)
    local = f"{environment.mount}/{LOCAL}"
    options = ["--read-only", "--in", local, "--writable", local]
    sandbox: list[str | Path] = [sys.executable, WITH_MOUNT, *options, store, environment.mount]
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    own = {"UENV_MOUNT": environment.mount, "UENV_VIEW": environment.root_of(environment.view), "UENV_LOCAL": local}
    done = run([*sandbox, f"{environment.mount}/{WORK}/{POST_INSTALL}"], env={**kept, **own})
    output = f"{done.stdout}{done.stderr}"
    write(log, output)
    if done.code != 0:
        lines = "".join(f"\n  {line}" for line in output.splitlines()[-LAST_LINES:])
        hint = f"what it printed: {log}\nthe packages stay installed: mend the script, and run it again"
        raise ToolFailed(f"the script of --post-install failed (exit code {done.code}){lines}", hint=hint)
