"""The flaws of batch scripts and EDFs, whoever wrote them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.check.context import Context
from uenvtool.check.edf import netstack_of
from uenvtool.check.edfs import StepEdf, step_edfs
from uenvtool.check.findings import Flaw, findings, fixed, mendable, read_source, secrets, without, without_secrets
from uenvtool.check.parts import CheckedFile
from uenvtool.check.request import CheckRequest
from uenvtool.check.show import difference, report, summary
from uenvtool.core.errors import BadInput, ExitCode, Position, require_known
from uenvtool.core.files import is_stream, locked, read_named, write
from uenvtool.core.result import Result
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.kinds import RECIPE, RULES
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.locate import available, shown
from uenvtool.knowledge.recipe import read_recipe
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.rule import HINT, Rule, load_rules
from uenvtool.knowledge.runtime import all_runtimes, load_runtime, script_runtimes
from uenvtool.knowledge.settings import Settings, facts_of, hook_facts, recipe_of_label, runtimes_of, settings_of
from uenvtool.knowledge.system import System, load_system

MAX_BYTES = 20_000_000
MAX_TRAINING_BYTES = 2_000_000
"""A training program is not longer; what is longer is not read."""


def check_files(request: CheckRequest) -> Result:
    """Give the flaws of the files, and of the EDFs that scripts among them name, which --fix leaves as they are.

    The exit code is NO if one is an error or a warning.

    Raises BadInput for a file that cannot be read or is no text, and for a rule that does not exist.
    """
    _forget()
    rules = _selected(request.select)
    found: list[Flaw] = []
    changes: list[str] = []
    warnings: list[str] = []
    sources = [(file, read_source(_text(file), shown(file))) for file in request.files]
    named = [_edfs(source, file.parent) for file, source in sources]
    by_nodes = sorted(itertools.chain.from_iterable(named), key=lambda edf: edf.nodes or 0)
    of_steps = {edf.file.shown: edf for edf in by_nodes}  # of the step with most nodes
    nodes = {name: edf.nodes for name, edf in of_steps.items()}
    for (file, first), edfs in zip(sources, named, strict=True):
        source, name = first, first.shown
        if source.template:
            warnings.append(f"{name}: a template of another program ({source.template}), not judged")
            continue
        here = _flaws(source, rules, request.system, file.parent, edfs, nodes.get(name))
        if request.fix or request.diff:
            old, new = source.text, fixed(source.text, here)
            changes.append(without(secrets(old, here), difference(name, old, new)))
            if request.fix and new != old:
                _rewrite(file, old, new)
                source = read_source(new, name)
                here = _flaws(source, rules, request.system, file.parent, _edfs(source, file.parent), nodes.get(name))
        warnings += [f"{name}: directives of {source.foreign} are skipped"] if source.foreign else []
        found += without_secrets(source.text, here)
    for edf in (of_steps[name] for name in sorted(of_steps.keys() - {source.shown for _, source in sources})):
        here = _flaws(edf.file, rules, request.system, nodes=edf.nodes)
        found += (dataclasses.replace(flaw, edits=()) for flaw in without_secrets(edf.file.text, here))
    judged = sum(not source.template for _, source in sources)
    visible = [finding for finding in found if request.all or finding.severity != HINT]
    is_wrong = any(finding.severity != HINT for finding in found)
    return Result(
        data=[finding.data() for finding in visible],
        report=functools.partial(report, visible, changes=changes),
        warnings=tuple(warnings),
        notes=(*skipped_file_notes(RULES), summary(found, judged, request.all)),
        exit_code=ExitCode.NO if is_wrong and not request.exit_zero else ExitCode.DONE,
    )


def _selected(names: Sequence[str]) -> tuple[Rule, ...]:
    rules = load_rules()
    wanted = [name for finding in names for name in finding.split(",")]
    require_known("rule", wanted, rules, listed_by="uenvtool list rules")
    return tuple(rule for name, rule in rules.items() if not wanted or name in wanted)


def flaws(source: CheckedFile, system: str | None, given: Mapping[str, str]) -> list[Flaw]:
    """Return every flaw of a batch script or EDF. system: the one that it is for.

    given: the variables that it is started with, which it need not set.
    """
    _forget()
    source = dataclasses.replace(source, given=given)
    return without_secrets(source.text, _flaws(source, load_rules().values(), system))


def _flaws(
    source: CheckedFile,
    rules: Iterable[Rule],
    system: str | None,
    folder: Path | None = None,
    edfs: Sequence[StepEdf] = (),
    nodes: int | None = None,
) -> list[Flaw]:
    """Return the flaws of a file and of the scripts within it. system: as in `flaws`. nodes: of the job of an EDF."""
    found = _found(source, rules, system, folder, edfs, nodes)
    return mendable(source.text, found, lambda new, of: _found(read_source(new, source.shown), of, system, folder))


def _found(
    source: CheckedFile,
    rules: Iterable[Rule],
    system: str | None,
    folder: Path | None = None,
    edfs: Sequence[StepEdf] = (),
    nodes: int | None = None,
) -> list[Flaw]:
    context = Context(
        source,
        functools.cache(functools.partial(_settings, system, source, edfs, nodes)),
        _scheduler(system, source),
        functools.partial(_beside, folder) if folder else lambda _name: "",
        _system(system).jobs.required if system else (),
        lambda name: folder is None or any((place / name).is_dir() for place in _project(folder)),
        {edf.offset: _image_kind(edf.file, system) for edf in edfs},
        nodes,
    )
    inner = [finding for script in source.inner for finding in _found(script, rules, system, folder)]
    return sorted([*findings(context, rules), *inner], key=lambda finding: (finding.position, finding.rule.id))


def _text(file: Path) -> str:
    try:
        data = read_named(file, MAX_BYTES)
    except FileNotFoundError:
        raise BadInput("no such file", Position(shown(file)), "name a batch script or EDF") from None
    if b"\0" in data or not data.strip():
        why = "this is no text" if data.strip() else "the file is empty"
        raise BadInput(why, Position(shown(file)), "name a batch script or EDF")
    if file.suffix == ".py" or re.match(rb"#!\s*\S*(env\s+)?\S*python", data):
        raise BadInput("this is a Python program", Position(shown(file)), "name the batch script that starts it")
    return data.decode("utf-8", "replace")


def _rewrite(file: Path, old: str, new: str) -> None:
    """Write a mended script in its place.

    Raises BadInput for one that would lose bytes by it, or that another program, such as this one, changed meanwhile.
    """
    place, hint = Position(shown(file)), "--fix takes files of UTF-8, and EDFs with LF line ends"
    if is_stream(file):
        raise BadInput("cannot mend it in place", place, hint)
    path = file.resolve()
    with locked(path.parent, wait=True, below=False):
        if read_source(_text(file), place.file).text != old:
            raise BadInput("it was changed while it was checked", place, "run it again")
        if read_named(file, MAX_BYTES) != old.encode():
            raise BadInput("cannot mend it in place", place, hint)
        write(path, new)


def _beside(folder: Path, name: str) -> str:
    """Read a program that a script starts, from the script's folder or the current one; empty if it is not there."""
    return _read_beside(folder, name)[1]


def _project(folder: Path) -> Iterator[Path]:
    """Yield a folder, and those above it up to the one of its repository, where its jobs may be submitted."""
    above = (folder.resolve(), *folder.resolve().parents)
    root = next((i for i, place in enumerate(above) if (place / ".git").exists()), 0)
    yield from above[: root + 1]


def _edfs(source: CheckedFile, folder: Path) -> list[StepEdf]:
    return step_edfs(source, functools.partial(_read_beside, folder))


def _read_beside(folder: Path, name: str) -> tuple[str, str]:
    """Return a file that a script names, as messages show it, and its text; as `_beside`."""
    for place in (folder / name, Path(name)):
        try:
            return shown(place), read_named(place, MAX_TRAINING_BYTES).decode("utf-8", "replace")
        except (OSError, BadInput):
            continue
    return "", ""


_system = functools.cache(load_system)
_recipe = functools.cache(read_recipe)


def _settings(system: str | None, source: CheckedFile, edfs: Sequence[StepEdf], nodes: int | None) -> Settings | None:
    """Return the settings for a file: of the system, or of what all systems with its runtime agree in.

    edfs: of its steps; the first tells the image and the hook. nodes: of the job of an EDF.
    """
    runtime = runtime_of(source) or (_unshown(system) if system else None)
    systems = _systems(system, runtime)
    if not systems:
        return None
    edf = edfs[0].file if edfs else source
    facts = {"image": _image_kind(edf, system), **_versions(source, systems[0])}
    netstack = netstack_of(edf)
    if netstack is not None and system and runtime:
        facts |= hook_facts(systems[0], runtime, netstack)
    else:
        facts["hook"] = None
    directives = {part.name: part.text for part in source.of("directive")}
    asked = directives.get("nodes", directives.get("ntasks"))  # without either, sbatch may be given more
    if nodes == 1 or asked == "1":
        facts["nodes"] = "1"
    return _settings_of(system, runtime, tuple(facts.items()))


@functools.cache
def _settings_of(system: str | None, runtime: str | None, known: tuple[tuple[str, str | None], ...]) -> Settings:
    """Return the settings, once for all files. Where other sites have the runtime too, it does not show the network."""
    systems, facts = _systems(system, runtime), dict(known)
    if runtime is None or (runtime not in systems[0].runtimes and load_runtime(runtime).in_script):
        return settings_of(systems, runtimes_of(systems[0]), facts=facts)
    loaded = load_runtime(runtime)
    found = settings_of(systems, [loaded], facts=facts)
    if system or not loaded.common:  # of one site
        return found
    return dataclasses.replace(found, known={**facts, "runtime": runtime}, settings=())


@functools.cache
def _unshown(system: str) -> str | None:
    """Return the runtime of a script for a system that shows none: a Python of the system's, else of the user's own."""
    possible = (*runtimes_of(_system(system)), *all_runtimes())
    return next((runtime.name for runtime in possible if not (runtime.in_script or runtime.container)), None)


def _forget() -> None:
    """Forget what was read for an earlier call: a system of the user's may be another one now."""
    for known in (_system, _recipe, _settings_of, _unshown, _with_runtime):
        known.cache_clear()


def _systems(system: str | None, runtime: str | None) -> tuple[System, ...]:
    return (_system(system),) if system else _with_runtime(runtime) if runtime else ()


def _scheduler(system: str | None, source: CheckedFile) -> Facts:
    """Return the version of Slurm, and whether nodes run one job each, if the systems of a file have the same."""
    systems = _systems(system, runtime_of(source))
    packages = [found.packages["slurm"] for found in systems if "slurm" in found.packages]
    versions = {
        str(external.spec.versions.lowest)
        for package in packages
        for external in package.externals
        if external.spec.versions
    }
    slurm = {"slurm": versions.pop()} if len(packages) == len(systems) and len(versions) == 1 else {}
    is_exclusive = bool(systems) and all(found.scheduler.exclusive for found in systems)
    return {**slurm, "exclusive": "yes" if is_exclusive else None}


def _image_kind(source: CheckedFile, system: str | None) -> str | None:
    """Return the kind of an EDF's image, where its name is one of those with their own network stack."""
    runtime = runtime_of(source)
    extended = [found for one in _systems(system, runtime) if (found := one.jobs.of(runtime or "").extended)]
    images = [part.text for part in source.of("entry", "image")]
    is_extended = any(found.image.search(image) for found in extended for image in images)
    return load_runtime(runtime).extended_kind if runtime and is_extended else None


@functools.cache
def _with_runtime(runtime: str) -> tuple[System, ...]:
    """Return the systems that have a runtime; broken files of the user's are left out."""
    found = []
    for name in concrete_systems():
        try:
            found.append(load_system(name))
        except BadInput:
            continue  # told when somebody names it
    return tuple(system for system in found if runtime in system.runtimes)


def runtime_of(source: CheckedFile) -> str | None:
    """Return the runtime that a script shows; None if it shows none."""
    return next((runtime.name for runtime in script_runtimes() if runtime.name in source.kinds), None)


def recipe_of(source: CheckedFile) -> str | None:
    """Return the recipe of the uenv that a script loads, as it was made for it or by the label, if it is known."""
    return source.recipe if source.recipe in available(RECIPE) else recipe_of_label(source.uenv)


def _versions(source: CheckedFile, system: System) -> Facts:
    """Return the versions in the uenv that a script loads, if its recipe is known."""
    name = recipe_of(source)
    return facts_of(_recipe(name), system, next(iter(system.nodes))) if name else {}
