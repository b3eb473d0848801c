"""What comes after an environment is installed: its module files, and a script of the user's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, last_lines, make_folder, remove_tree, write
from uenvtool.core.processes import run
from uenvtool.env.folder import MODULES
from uenvtool.env.install import WITH_MOUNT, WORK, InstallOptions, configuration, judged, sandboxed, staged_folder
from uenvtool.env.installable import Installable
from uenvtool.env.program import Spack
from uenvtool.env.runner import FOREIGN_VARIABLES, write_scope

POST_INSTALL = "post-install"
"""The name of the script among the texts of an environment that is made an image."""
LOCAL = "local"
"""The folder of an image with what the script put there."""
MODULE_FILES = "modules"
"""The folder of an image with its module files."""
_MADE_ON = re.compile(rb"(Module file created by spack \([^)\n]*\)) on [0-9:. -]+")


def make_modules(spack: Spack, environments: Sequence[Installable], store: Path, options: InstallOptions) -> None:
    """Have Spack make the module files of the environments that have a configuration of them.

    That is passed on as it is, but for the folder, which all share. Raises ToolFailed if Spack fails.
    """
    if has_modules(environments) and os.path.lexists(store / MODULE_FILES):
        remove_tree(store / MODULE_FILES)  # of an earlier run
    for environment in environments:
        if MODULES in environment.texts:
            _make_modules(spack, environment, store, options)
    for file in (store / MODULE_FILES).rglob("*"):
        if file.is_file():
            write(file, _MADE_ON.sub(rb"\1", file.read_bytes()))  # the same bytes, whenever they are made


def has_modules(environments: Sequence[Installable]) -> bool:
    """Tell if there are module files in the image of environments."""
    return any(MODULES in environment.texts for environment in environments)


def _make_modules(spack: Spack, environment: Installable, store: Path, options: InstallOptions) -> None:
    import yaml

    work, folder = store / WORK, f"{environment.mount}/{MODULE_FILES}"
    default = yaml.load(environment.texts[MODULES], Loader=yaml.CSafeLoader)["modules"]["default"]
    (kind,) = default["enable"]
    own = {**default, "roots": {kind: folder}, "arch_folder": False}
    write_scope(work / MODULE_FILES, {**configuration(environment, options), "modules": {"default:": own}})
    runner = sandboxed(spack, environment, store, work, staged_folder(environment, work), options)
    done = replace(runner, scope=work / MODULE_FILES).run("module", kind, "refresh", "--yes-to-all")
    judged(done, spack, environment, store)


def run_post_install(environment: Installable, store: Path) -> None:
    """Run the script of an environment, if it has one, in a new folder LOCAL of the store.

    It sees the store at its mount point, and can write to LOCAL and to temporary files alone: the packages stay as
    the lock has them. Raises ToolFailed with the end of what it printed if it fails.
    """
    text = environment.texts.get(POST_INSTALL)
    if text is None:
        return
    log = store / WORK / f"{POST_INSTALL}.log"
    if os.path.lexists(store / LOCAL):
        remove_tree(store / LOCAL)  # of an earlier run
    make_folder(store / LOCAL)
    fill(store / WORK, {POST_INSTALL: text}, executable=[POST_INSTALL])
    local = f"{environment.mount}/{LOCAL}"
    options = ["--read-only", "--in", local, "--writable", local]
    sandbox: list[str | Path] = [sys.executable, WITH_MOUNT, *options, store, environment.mount]
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    own = {"UENV_MOUNT": environment.mount, "UENV_VIEW": environment.root_of(environment.view), "UENV_LOCAL": local}
    done = run([*sandbox, f"{environment.mount}/{WORK}/{POST_INSTALL}"], env={**kept, **own})
    write(log, f"{done.stdout}{done.stderr}")
    if done.code != 0:
        lines = "".join(f"\n  {line}" for line in last_lines(log))
        hint = f"what it printed: {log}\nthe packages stay installed: mend the script, and run it again"
        raise ToolFailed(f"the script of --post-install failed (exit code {done.code}){lines}", hint=hint)
