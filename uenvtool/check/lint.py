"""The `check` command: read batch scripts and EDFs, apply the rules, and fix problems."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.check.context import Context
from uenvtool.check.edf import StepEdf, netstack_of, step_edfs
from uenvtool.check.finders import OF_SUBMISSION
from uenvtool.check.parts import CheckedFile
from uenvtool.check.problems import (
    Problem,
    fixed,
    hider,
    problems_of,
    read_source,
    secrets,
    with_working_edits,
    without_secrets,
)
from uenvtool.check.request import CheckRequest
from uenvtool.check.show import GITHUB, difference, explained_by, report, summary
from uenvtool.core.errors import BadInput, ExitCode, Position, require_known
from uenvtool.core.files import is_stream, locked, read_named, write
from uenvtool.core.limits import limited
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

STANDARD_INPUT = Path("-")
MAX_BYTES = 20_000_000
"""The maximum size of a checked file."""
MAX_NEARBY_BYTES = 2_000_000
"""The maximum size of a training program or EDF that a checked file names."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Use:
    """How a file is used.

    system: the system on which the file runs, or None if it is unknown.
    directory: the script's directory, or None if check may not read other files.
    edfs: the EDFs of the script's steps.
    nodes: for an EDF, the number of nodes of the job that uses the EDF.
    """

    system: str | None
    directory: Path | None = None
    edfs: Sequence[StepEdf] = ()
    nodes: int | None = None


def check_files(request: CheckRequest) -> Result:
    """Return the problems in the files, and in the EDFs that the scripts name. --fix does not change these EDFs.

    Raises BadInput if a file cannot be read or is not a text file, or if a rule does not exist.
    """
    if request.format == GITHUB and (request.fix or request.diff):
        option = "--fix" if request.fix else "--diff"
        raise BadInput(f"{option} prints no annotations", hint=f"leave out {option} or --format {GITHUB}")
    _clear_caches()
    rules = _selected(request.select)
    found: list[Problem] = []
    changes: list[str] = []
    warnings: list[str] = []
    sources = [(file, _source(file)) for file in request.files]
    named = [_edfs(source, _directory(file)) for file, source in sources]
    by_nodes = sorted(itertools.chain.from_iterable(named), key=lambda edf: edf.nodes or 0)
    of_steps = {edf.file.shown: edf for edf in by_nodes}  # for each EDF, the step with the most nodes
    nodes = {name: edf.nodes for name, edf in of_steps.items()}
    for (file, first), edfs in zip(sources, named, strict=True):
        source, name = first, first.shown
        if source.template:
            warnings.append(f"{name}: not checked, because it is a template of another program ({source.template})")
            continue
        use = _Use(request.system, _directory(file), edfs, nodes.get(name))
        problems = _file_problems(source, rules, use)
        if request.fix or request.diff:
            old, new = source.text, fixed(source.text, problems)
            changes.append(hider(secrets(old, problems))(difference(name, old, new)))
            if request.fix and new != old:
                _rewrite(file, old, new)
                source = read_source(new, name)
                problems = _file_problems(source, rules, dataclasses.replace(use, edfs=_edfs(source, _directory(file))))
        warnings += [f"{name}: {source.foreign} directives are not checked"] if source.foreign else []
        warnings += [
            f"{name}: a script that it writes is not checked, because it is a template ({script.template})"
            for script in source.inner
            if script.template
        ]
        found += without_secrets(source.text, problems)
    for edf in (of_steps[name] for name in sorted(of_steps.keys() - {source.shown for _, source in sources})):
        problems = _file_problems(edf.file, rules, _Use(request.system, nodes=edf.nodes))
        found += (dataclasses.replace(problem, edits=()) for problem in without_secrets(edf.file.text, problems))
    checked = sum(not source.template for _, source in sources)
    visible = [problem for problem in found if request.all or problem.severity != HINT]
    is_wrong = any(problem.severity != HINT for problem in found)
    return Result(
        data=[problem.data() for problem in visible],
        report=functools.partial(report, visible, changes=changes, form=request.format),
        warnings=tuple(warnings),
        notes=(*skipped_file_notes(RULES), summary(found, checked, request.all), *_explanation(visible)),
        exit_code=ExitCode.NO if is_wrong and not request.exit_zero else ExitCode.DONE,
    )


def _explanation(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield a note on the command that explains problems, unless each of them links to its page."""
    without_page = [problem for problem in problems if not problem.rule.page]
    if without_page:
        yield f"reasons and sources: `{explained_by(without_page)}`"


def _selected(names: Sequence[str]) -> tuple[Rule, ...]:
    rules = load_rules()
    selected = [name for value in names for name in value.split(",")]
    require_known("rule", selected, rules, listed_by="uenvtool list rules")
    return tuple(rule for name, rule in rules.items() if not selected or name in selected)


def problems_in(
    source: CheckedFile, system: str | None, given: Mapping[str, str], directory: Path | None
) -> list[Problem]:
    """Return the problems in a submitted job's batch script, without problems that options of sbatch solved.

    given: the environment variables at submission, which the script need not set. directory: the job's directory.
    """
    _clear_caches()
    source = dataclasses.replace(source, given=given)
    rules = (rule for rule in load_rules().values() if rule.finder not in OF_SUBMISSION)
    return without_secrets(source.text, _file_problems(source, rules, _Use(system, directory)))


def _file_problems(source: CheckedFile, rules: Iterable[Rule], use: _Use) -> list[Problem]:
    """Return the problems in a file and in the scripts that it writes, without the edits that do not help.

    Raises BadInput if this takes too long.
    """
    with limited(source.shown):
        return _problems(source, rules, use)


def _source(file: Path) -> CheckedFile:
    with limited(shown(file)):
        return read_source(_text(file), shown(file))


def _problems(source: CheckedFile, rules: Iterable[Rule], use: _Use) -> list[Problem]:
    inside = _Use(use.system, use.directory)

    def all_problems(source: CheckedFile, rules: Iterable[Rule], use: _Use) -> list[Problem]:
        found = [*problems_of(_context(source, use), rules)]
        for script in (script for script in source.inner if not script.template):
            found += all_problems(script, rules, inside)
        return sorted(found, key=lambda problem: (problem.position, problem.rule.id))

    def recheck(text: str, some_rules: Iterable[Rule]) -> list[Problem]:
        return all_problems(read_source(text, source.shown), some_rules, inside)

    return with_working_edits(source.text, all_problems(source, rules, use), recheck)


def _context(source: CheckedFile, use: _Use) -> Context:
    system, directory = use.system, use.directory
    places = [*_project(directory)] if directory else []
    return Context(
        source,
        load_settings=functools.partial(_settings, source, use),
        facts=_scheduler(system, source),
        read=functools.cache(lambda name: _read_nearby(directory, name)[1] if directory else ""),
        system=_system(system) if system else None,
        recipe=_recipe(name) if (name := recipe_of(source)) else None,
        has_directory=lambda name: directory is None or any((place / name).is_dir() for place in places),
        images={edf.offset: _image_kind(edf.file, system) for edf in use.edfs},
        nodes=use.nodes,
    )


def _text(file: Path) -> str:
    position, hint = Position(shown(file)), "pass the path of a batch script or EDF, or - for standard input"
    try:
        data = read_named(Path("/dev/stdin") if file == STANDARD_INPUT else file, MAX_BYTES)
    except FileNotFoundError:
        raise BadInput("file not found", position, hint) from None
    if b"\0" in data or not data.strip():
        raise BadInput("not a text file" if data.strip() else "the file is empty", position, hint)
    if file.suffix == ".py" or re.match(rb"#!\s*\S*(env\s+)?\S*python", data):
        raise BadInput("not a batch script but a Python program", position, "check the script that starts it")
    return data.decode("utf-8", "replace")


def _is_stream(file: Path) -> bool:
    return file == STANDARD_INPUT or is_stream(file)


def _directory(file: Path) -> Path:
    """Return the directory of a script, or the current directory if the script is read from a pipe."""
    return Path() if _is_stream(file) else file.parent


def _rewrite(file: Path, old: str, new: str) -> None:
    """Replace a file. Raises BadInput if this would lose bytes, or if another process has changed the file."""
    position = Position(shown(file))
    if _is_stream(file):
        raise BadInput("cannot fix it in place", position, "use --diff, or save the script to a file")
    path = file.resolve()
    with locked(path.parent, wait=True, below=False):
        if read_source(_text(file), position.file).text != old:
            raise BadInput("the file changed during the check", position, "run the command again")
        if read_named(file, MAX_BYTES) != old.encode():
            hint = "convert the file to UTF-8, and an EDF to LF line endings"
            raise BadInput("cannot fix it in place", position, hint)
        write(path, new)


def _project(directory: Path) -> Iterator[Path]:
    """Yield the directories from which the job may be submitted: the script's, and its parents in the repository."""
    above = (directory.resolve(), *directory.resolve().parents)
    root = next((i for i, place in enumerate(above) if (place / ".git").exists()), 0)
    yield from above[: root + 1]


def _edfs(source: CheckedFile, directory: Path) -> list[StepEdf]:
    return step_edfs(source, functools.partial(_read_nearby, directory))


def _read_nearby(directory: Path, name: str) -> tuple[str, str]:
    """Return the name for messages and the text of a file in either directory, both empty if it cannot be read."""
    for place in (directory / name, Path(name)):
        try:
            return shown(place), read_named(place, MAX_NEARBY_BYTES).decode("utf-8", "replace")
        except (OSError, BadInput):
            continue
    return "", ""


_system = functools.cache(load_system)
_recipe = functools.cache(read_recipe)


def _settings(source: CheckedFile, use: _Use) -> Settings | None:
    """Return the settings of the given system, or the settings that all systems with the file's runtime share."""
    system = use.system
    runtime = runtime_of(source) or (_implicit_runtime(system) if system else None)
    systems = _systems(system, runtime)
    if not systems:
        return None
    edf = use.edfs[0].file if use.edfs else source  # determines the image and the hook
    facts = {"image": _image_kind(edf, system), **_versions(source, systems[0]), "hook": None}
    netstack = netstack_of(edf)
    if netstack is not None and system and runtime:
        facts |= hook_facts(systems[0], runtime, netstack)
    directives = {part.name: part.text for part in source.of("directive")}
    requested = directives.get("nodes", directives.get("ntasks"))  # otherwise sbatch's command line may request more
    if use.nodes == 1 or requested == "1":
        facts["nodes"] = "1"
    return _settings_of(system, runtime, tuple(facts.items()))


@functools.cache
def _settings_of(system: str | None, runtime: str | None, known: tuple[tuple[str, str | None], ...]) -> Settings:
    """Return the settings for a system, a runtime and known facts.

    If several sites have the runtime and no system is given, the network is unknown and no setting applies.
    """
    systems, facts = _systems(system, runtime), dict(known)
    if runtime is None or (runtime not in systems[0].runtimes and load_runtime(runtime).in_script):
        return settings_of(systems, runtimes_of(systems[0]), facts=facts)
    loaded = load_runtime(runtime)
    settings = settings_of(systems, [loaded], facts=facts)
    if system or not loaded.common:  # only one site has the runtime
        return settings
    return dataclasses.replace(settings, known={**facts, "runtime": runtime}, settings=())


@functools.cache
def _implicit_runtime(system: str) -> str | None:
    """Return the runtime of a script that names none: the Python of the system, or else the user's Python."""
    possible = (*runtimes_of(_system(system)), *all_runtimes())
    return next((runtime.name for runtime in possible if not (runtime.in_script or runtime.container)), None)


def _clear_caches() -> None:
    """Clear the caches of an earlier call, because the user may have changed a file since then."""
    for cached in (_system, _recipe, _settings_of, _implicit_runtime, _with_runtime):
        cached.cache_clear()


def _systems(system: str | None, runtime: str | None) -> tuple[System, ...]:
    return (_system(system),) if system else _with_runtime(runtime) if runtime else ()


def _scheduler(system: str | None, source: CheckedFile) -> Facts:
    """Return the Slurm version and whether each node runs only one job, if all possible systems agree."""
    systems = _systems(system, runtime_of(source))
    packages = [candidate.packages["slurm"] for candidate in systems if "slurm" in candidate.packages]
    specs = [external.spec for package in packages for external in package.externals]
    versions = {str(spec.versions.lowest) for spec in specs if spec.versions}
    slurm = versions.pop() if len(packages) == len(systems) and len(versions) == 1 else None
    is_exclusive = bool(systems) and all(candidate.scheduler.exclusive for candidate in systems)
    whole = {name for candidate in systems for name, limit in candidate.jobs.partitions.items() if limit.exclusive}
    is_exclusive |= any(part.text in whole for part in source.of("directive", "partition"))
    return {"slurm": slurm, "exclusive": "yes" if is_exclusive else None}


def _image_kind(source: CheckedFile, system: str | None) -> str | None:
    """Return the kind of an EDF's image if the image contains its own network stack, or None."""
    runtime = runtime_of(source)
    uses = (candidate.jobs.of(runtime or "") for candidate in _systems(system, runtime))
    patterns = [use.extended.image for use in uses if use.extended]
    images = [part.text for part in source.of("entry", "image")]
    is_extended = any(pattern.search(image) for pattern in patterns for image in images)
    return load_runtime(runtime).extended_kind if runtime and is_extended else None


@functools.cache
def _with_runtime(runtime: str) -> tuple[System, ...]:
    systems = []
    for name in concrete_systems():
        with contextlib.suppress(BadInput):  # an invalid file is reported when the user names its system
            systems.append(load_system(name))
    fitting = [system for system in systems if runtime in system.runtimes]
    with_gpus = [system for system in fitting if any(node.gpu for node in system.nodes.values())]
    return tuple(with_gpus or fitting)  # a script that names no system is likely to train on GPUs


def runtime_of(source: CheckedFile) -> str | None:
    """Return the runtime that a script uses, or None if the script does not show its runtime."""
    return next((runtime.name for runtime in script_runtimes() if runtime.name in source.kinds), None)


def recipe_of(source: CheckedFile) -> str | None:
    """Return the recipe of a script's uenv, from the comment by `uenvtool job` or the image name and tag, or None."""
    return source.recipe if source.recipe in available(RECIPE) else recipe_of_label(source.uenv)


def _versions(source: CheckedFile, system: System) -> Facts:
    name = recipe_of(source)
    return facts_of(_recipe(name), system, next(iter(system.nodes))) if name else {}
