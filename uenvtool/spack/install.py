"""Installs a resolved environment with real Spack, at its mount point, which only Spack sees."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position
from uenvtool.files import write, write_all
from uenvtool.result import Step
from uenvtool.spack.explain_failure import explain_failed_install
from uenvtool.spack.folder import COMPILER, LOCK
from uenvtool.spack.lock import Lock, read_lock, require_installable
from uenvtool.spack.manifest import MANIFEST
from uenvtool.spack.program import Spack
from uenvtool.spack.runner import Runner, user_cache, write_scope

MOUNT = "/user-environment"
"""Where an image is mounted if its system names no other place; uenv's own default."""
WITH_MOUNT = Path(__file__).parent / "scripts" / "with_mount.py"
WORK = ".uenvtool-install"
"""The folder in a store where packages are built and logs are kept; no part of an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installable:
    """A resolved environment on disk.

    manifest: the `spack:` part of its spack.yaml. mount: where it is installed, and its image mounted.
    view: the name of its view. texts: its files that Spack reads, relative name to text.
    """

    folder: Path
    manifest: Mapping[str, Any]
    lock: Lock
    mount: str
    view: str
    texts: Mapping[str, str]

    @property
    def view_root(self) -> str:
        """Where the view lies."""
        return f"{self.mount}/env/{self.view}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """How to install. jobs: processes of one build, None for Spack's own choice.

    repos: package repositories on disk, by name. mirrors: URLs of source mirrors. caches: URLs of build
    caches. unsigned: take packages from a cache that nobody signed.
    """

    jobs: int | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    unsigned: bool = False


def read_installable(folder: Path) -> Installable:
    """A resolved environment in a folder.

    Raises BadInput if it has no spack.yaml or no lock, AnswerIsNo if the lock would not install.
    """
    import yaml

    try:
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in _names(folder)}
        manifest = yaml.load(texts[MANIFEST], Loader=yaml.CSafeLoader)["spack"]
    except (OSError, KeyError, TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{folder} is no environment of Spack: {error}", Position(str(folder / MANIFEST))) from error
    if LOCK not in texts:
        raise BadInput(f"{folder} has no {LOCK} yet", hint="make it with uenvtool build --concretize")
    lock = read_lock(folder / LOCK, str(folder / LOCK))
    require_installable(lock, str(folder / LOCK))
    views = manifest.get("view")
    tree = manifest.get("config", {}).get("install_tree", {})
    return Installable(
        folder=folder,
        manifest=manifest,
        lock=lock,
        mount=str(tree.get("root", MOUNT)),
        view=next(iter(views)) if isinstance(views, dict) and views else "default",
        texts=texts,
    )


def install(
    spack: Spack,
    environment: Installable,
    store: Path,
    options: InstallOptions,
    *,
    on_step: Step | None = None,
) -> None:
    """Install an environment and make its view; `store` is the folder that Spack sees at the mount point.

    What the store has is not built again: a run that was stopped goes on. The compiler's own
    environment, if there is one, is installed first. The user's own configuration of Spack stays outside.
    Raises BadInput if the mount point does not exist, ToolFailed if a package cannot be built; what is
    installed stays.
    """
    if not Path(environment.mount).is_dir():
        raise BadInput(
            f"the mount point {environment.mount} does not exist here",
            hint=f"make it (`mkdir {environment.mount}` as root); it stays empty",
        )
    work = store / WORK
    write_scope(work / "configuration", _configuration(environment, work, options))
    if f"{COMPILER}/{MANIFEST}" in environment.texts:
        _install_compiler(spack, environment, store, options, on_step)
    texts = {name: text for name, text in environment.texts.items() if not name.startswith(f"{COMPILER}/")}
    manifest = {**environment.manifest, "view": _view(environment)}
    runner = _staged(spack, environment, store, "environment", {**texts, MANIFEST: isolated_manifest(manifest)})
    _run(runner, spack, ["install", *_words(options)], work, on_step)


def _install_compiler(
    spack: Spack, environment: Installable, store: Path, options: InstallOptions, on_step: Step | None
) -> None:
    """Resolve, on this node, and install the environment of the compiler."""
    import yaml

    manifest = yaml.load(environment.texts[f"{COMPILER}/{MANIFEST}"], Loader=yaml.CSafeLoader)["spack"]
    runner = _staged(spack, environment, store, COMPILER, {MANIFEST: isolated_manifest(manifest)})
    _run(runner, spack, ["concretize", "--fresh"], store / WORK, on_step)
    _run(runner, spack, ["install", *_words(options)], store / WORK, on_step)


def _staged(spack: Spack, environment: Installable, store: Path, name: str, texts: Mapping[str, str]) -> Runner:
    """A runner on a copy of an environment, whose Spack sees the store at the mount point."""
    folder = store / WORK / name
    write_all(folder, texts)
    prefix = (sys.executable, os.fspath(WITH_MOUNT), os.fspath(store), environment.mount)
    return Runner(spack=spack, folder=folder, scope=store / WORK / "configuration", prefix=prefix)


def _run(runner: Runner, spack: Spack, words: list[str], work: Path, on_step: Step | None) -> None:
    completed = runner.run(*words, on_step=on_step)
    if completed.code != 0:
        output = completed.stdout + completed.stderr
        log = work / "spack.log"
        write(log, f"$ {completed.command}\n{output}\nexit code {completed.code}\n")
        raise explain_failed_install(spack, code=completed.code, output=output, log=log)


def _configuration(environment: Installable, work: Path, options: InstallOptions) -> dict[str, object]:
    """Spack's configuration for the run: all that it writes lies in the store or in its own cache."""
    mirrors: dict[str, object] = {
        f"source{index}": {"url": url, "source": True, "binary": False} for index, url in enumerate(options.mirrors)
    }
    mirrors |= {
        f"cache{index}": {"url": url, "source": False, "binary": True, "signed": not options.unsigned}
        for index, url in enumerate(options.caches)
    }
    places = {
        "install_tree": {"root": environment.mount},
        "build_stage": [os.fspath(work / "stage")],
        "source_cache": os.fspath(user_cache() / "downloads"),
    }
    sections: dict[str, object] = {"config": places, "mirrors": mirrors}
    if options.repos:
        sections["repos"] = {name: os.fspath(path) for name, path in options.repos.items()}
    return sections


def _view(environment: Installable) -> object:
    """The environment's view, at its place in the image."""
    views = environment.manifest.get("view")
    own = views.get(environment.view, {}) if isinstance(views, dict) else {}
    return {environment.view: {**own, "root": environment.view_root}}


def isolated_manifest(manifest: Mapping[str, Any]) -> str:
    """A manifest that sees no other configuration than its own, as JSON, which is YAML."""
    return json.dumps({"spack": {"include:": [], **manifest}}, indent=1)


def _words(options: InstallOptions) -> list[str]:
    return ["--fail-fast", *(["-j", str(options.jobs)] if options.jobs else [])]


def _names(folder: Path) -> list[str]:
    """The files of an environment that Spack reads, relative to its folder."""
    names = [MANIFEST, LOCK, f"{COMPILER}/{MANIFEST}"]
    found = [name for name in names if (folder / name).is_file()]
    additions = sorted(path for path in (folder / "spack_repo").rglob("*") if path.suffix in {".py", ".yaml", ".patch"})
    return [*found, *(path.relative_to(folder).as_posix() for path in additions)]
