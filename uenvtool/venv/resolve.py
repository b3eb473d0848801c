"""Resolves the packages to install: uv answers with the user's requirements on top of the base's packages.

uv gets each package of the base as a wheel that contains only metadata.
"""

from __future__ import annotations

import copy
import io
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, Problem, UenvtoolError
from uenvtool.core.files import fill
from uenvtool.core.words import canonical
from uenvtool.venv import compat, pylock
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.plan import OverlayPlan, how_to_load_torch
from uenvtool.venv.requirements import names_of
from uenvtool.venv.settings import ALL
from uenvtool.venv.uv import Arguments, BuildFailed, IndexFailed, NoSolution, Uv

CAPS = frozenset({"<", "<="})
OPEN_BELOW = CAPS | {"!="}
"""The version operators that set no lower bound."""
WANTED = "wanted.in"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """A plan with the pylock.toml to install.

    older: for each package that the user named and that gets an older version, the newest allowed version. askers: the
    packages that require each package, known only in a dry run.
    """

    uv: Uv
    plan: OverlayPlan
    lock: str = pylock.EMPTY
    notes: tuple[str, ...] = ()
    older: Mapping[str, str] = field(default_factory=dict)
    askers: Mapping[str, Sequence[str]] = field(default_factory=dict)


def resolve(uv: Uv, plan: OverlayPlan) -> Installation:
    """Resolve the requirements with uv. The base's packages are pinned unless the user requests another version.

    A package that the user names without a lower bound gets a version near the newest: the same major version (below
    1.0 the same minor version) and a wheel. If no such version fits and the user named no version, the newest release
    that fits is used if the index dates it less than YEARS_OLDER before the newest. uv runs once, a second time to find
    the newest versions of the named packages, and a third time if the first result is too old. Raises AnswerIsNo if the
    requirements contradict the base, or would replace or duplicate a protected package.
    """
    uv = uv.building_on(plan.base, plan.requested)
    replaceable = _replaceable(plan)
    if not plan.requested.requirements and not plan.overrides:
        return Installation(uv=uv, plan=plan)
    question = Question(uv, plan, replaceable)
    text, error = "", None
    try:
        text = question.answer()
    except (NoSolution, BuildFailed) as failed:
        error = failed  # the cause may only be old releases, which uv tried while it searched for one that fits
    names = _newest_named(plan, question, pylock.versions_of(text))
    newest = question.newest() if names else ""
    versions = {name: version for name, version in pylock.versions_of(newest).items() if name in names}
    if uv.unbuilt is not None and uv.unbuilt.add(pylock.without_wheel(newest) & names):
        text = question.answer()
    oldest_allowed = _oldest_allowed(plan, versions)
    if error is not None or _too_old(text, newest, oldest_allowed):
        if error is not None and not oldest_allowed:
            raise question.explained(error, {})
        built = plan.settings.built_on_base
        may_build = pylock.without_wheel(newest) | (plan.requested.names if ALL in built else frozenset(built))
        source_allowed = oldest_allowed.keys() if plan.request.allow_older else may_build
        try:
            text = question.answer(oldest_allowed, only_binary=oldest_allowed.keys() - source_allowed)
        except (NoSolution, BuildFailed) as failed:
            older = {name: pylock.versions_of(text)[name] for name in _too_old(text, newest, oldest_allowed)}
            if not older or not _may_be_older(plan, older.keys(), text, newest):
                operators = _operators(plan)
                uncapped = {name: version for name, version in older.items() if not operators[name] & CAPS}
                raise question.explained(failed, uncapped, pylock.much_older(text, newest)) from None
    installed = {name: version for name, version in pylock.versions_of(text).items() if name not in question.pins}
    _refuse_torch(question, installed)
    _refuse_protected(question, installed, replaceable)
    older = {
        name: versions[name]
        for name, version in installed.items()
        if name in versions and version != plan.preferred.get(name) and compat.newer(versions[name], version)
    }
    askers = _askers(question, installed) if plan.request.dry_run else {}
    lock = pylock.restrict_to_hashes(pylock.stripped(text, question.pins), plan.requested)
    return Installation(uv=uv, plan=plan, lock=lock, older=older, askers=askers)


def _newest_named(plan: OverlayPlan, question: Question, versions: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        requirement.name
        for requirement in plan.requested.requirements
        if requirement.is_of_index
        and requirement.name not in question.pins
        and not requirement.operators & {"==", "==="}
        and plan.preferred.get(requirement.name, "") != versions.get(requirement.name)
    )


def _oldest_allowed(plan: OverlayPlan, newest: Mapping[str, str]) -> dict[str, str]:
    # With --allow-older, only packages with an upper bound have an oldest version, because the user chose that bound.
    oldest = {}
    for name, operators in sorted(_operators(plan).items()):
        applies = operators & CAPS if plan.request.allow_older else True
        if name in newest and operators <= OPEN_BELOW and applies:
            reference = plan.preferred.get(name, newest[name])
            oldest[name] = compat.floor(reference if compat.newer(newest[name], reference) else newest[name])
    return {name: version for name, version in oldest.items() if version}


def _operators(plan: OverlayPlan) -> dict[str, set[str]]:
    operators: dict[str, set[str]] = {}
    for requirement in plan.requested.requirements:
        operators.setdefault(requirement.name, set()).update(requirement.operators)
    return operators


def _too_old(text: str, newest: str, oldest_allowed: Mapping[str, str]) -> frozenset[str]:
    # A release without a wheel is also too old if a newer release has a wheel.
    versions, sources, newest_of = pylock.versions_of(text), pylock.without_wheel(text), pylock.versions_of(newest)
    return frozenset(
        name
        for name, oldest in oldest_allowed.items()
        if name in versions
        and (
            compat.newer(oldest, versions[name]) or (name in sources and compat.newer(newest_of[name], versions[name]))
        )
    )


def _may_be_older(plan: OverlayPlan, names: Set[str], text: str, newest: str) -> bool:
    operators, sources = _operators(plan), pylock.without_wheel(text)
    dates, newest_dates = pylock.uploaded(text), pylock.uploaded(newest)
    return not names & pylock.much_older(text, newest) and all(
        not operators[name] and name not in sources and name in dates and name in newest_dates for name in names
    )


def _askers(question: Question, installed: Mapping[str, str]) -> dict[str, list[str]]:
    askers = {}
    for name, requirers in question.annotations().items():
        packages = [requirer for requirer in requirers if not requirer.startswith("-")]  # without the user's files
        is_of_base = name in question.base.packages  # otherwise only an extra of a base package can require it
        askers[name] = [requirer for requirer in packages if canonical(requirer) in installed or not is_of_base]
    return askers


def _replaceable(plan: OverlayPlan) -> frozenset[str]:
    environment = compat.marker_environment(plan.base)
    problems: list[Problem] = []
    replaceable = {name for name in plan.override_names if name in plan.base.packages}
    for requirement in plan.requested.requirements:
        package = plan.base.packages.get(requirement.name)
        if package is None or requirement.name in replaceable or compat.fits(requirement, package, environment):
            continue
        rule = compat.protected(requirement.name)
        if rule is None:
            replaceable.add(requirement.name)
            continue
        text = requirement.text if requirement.requirement is None else str(requirement.requirement)
        message = f"{text} is requested, but the base has {package.name} {package.version}, which is protected"
        hint = f"keep the base's version with --keep-base, or replace it with --override {requirement.name}"
        problems.append(Problem(f"{message}: {rule.cost}", requirement.position, hint))
    AnswerIsNo.raise_any(problems)
    return frozenset(replaceable)


def _refuse_torch(question: Question, installed: Mapping[str, str]) -> None:
    base = question.base
    if "torch" in installed and not (
        "torch" in base.packages or base.is_plain or "torch" in question.plan.override_names
    ):
        raise AnswerIsNo(
            f"no base with torch: {base.described()} has no torch, and torch {installed['torch']} from the package "
            f"index, required by {question.askers('torch')}, is not built for this machine's GPUs and network",
            hint=f"{how_to_load_torch(os.environ)}, name a base that has torch with --base PYTHON, create a plain "
            "environment with its own torch (--no-base), or install that torch with --override torch",
        )


def _refuse_protected(question: Question, installed: Mapping[str, str], replaceable: frozenset[str]) -> None:
    base, plan = question.base.packages, question.plan
    allowed = {*replaceable, *plan.override_names, *plan.requested.names}
    has_torch = "torch" in base and "torch" not in replaceable
    problems = []
    for name, version in installed.items():
        rule = compat.protected(name)
        if rule and name not in allowed and (name in base or (rule.refuse_missing and has_torch)):
            requirers = question.askers(name)
            message = f"{name} {version}, required by {requirers}, is protected: {rule.cost}"
            hint = f"remove {requirers}, request another version, or install {name} with --override {name}"
            problems.append(Problem(message, hint=hint))
    AnswerIsNo.raise_any(problems)


class Question:
    """The queries of one resolution, with the input files that uv reads.

    pins: by name, the requirements that pin base packages to their versions. Replaceable packages are not pinned.
    """

    def __init__(self, uv: Uv, plan: OverlayPlan, replaceable: frozenset[str]) -> None:
        self.uv, self.plan, self.base, self.directory = uv, plan, plan.base, uv.work / "resolve"
        stubs = _write_stubs(self.directory / "base", plan.base)
        self.pins = {name: pin for name, pin in stubs.items() if name not in replaceable}
        texts = [requirement.text for requirement in plan.requested.requirements if not requirement.read_by_uv]
        requirers = [pin for name, pin in self.pins.items() if _requires_any(replaceable, name, plan.base)]
        local = (requirement for requirement in plan.requested.requirements if "file:" in requirement.text)
        self._directories = {requirement.name for requirement in local if requirement.name}
        # Stubs have the release's version, not the vendor's. uv reads files whose requirements --keep-base drops.
        forced = _requested_as_vendor_build(plan) | plan.kept
        pinned = (pin for name, pin in self.pins.items() if name in forced)
        excluded = (f"{name} ; python_version < '0'" for name in plan.kept - stubs.keys())
        fill(
            self.directory,
            {
                # The base's requirers are listed so that uv respects their requirements and names them in errors.
                WANTED: _lines([*plan.requested.lines, *texts, *plan.overrides, *requirers]),
                "pins.txt": _lines(pin for name, pin in self.pins.items() if name not in forced),
                "overrides.txt": _lines([*pinned, *excluded]),
                "constraints.txt": _lines(self._user_constraints()),
            },
        )

    def answer(self, floors: Mapping[str, str] | None = None, *, only_binary: Iterable[str] = ()) -> str:
        """Return the resolution as a pylock.toml. floors: the oldest versions. only_binary: packages not to build."""
        bounds = _lines(f"{name}>={version}" for name, version in (floors or {}).items())
        preferred = pylock.versions_lock(self.plan.preferred)  # uv prefers the versions in the file that it overwrites
        fill(self.directory, {"floors.txt": bounds, pylock.LOCK: preferred})
        options: list[str | Path] = ["-c", self.directory / "floors.txt"]
        options += [option for name in sorted(only_binary) for option in ("--only-binary", name)]
        refreshed = [option for name in sorted(self._directories) for option in ("--refresh-package", name)]
        output: list[str | Path] = ["--format", pylock.LOCK, "-o", self.directory / pylock.LOCK]
        self.uv.run([*self._arguments(), *options, *refreshed, *output])
        text = (self.directory / pylock.LOCK).read_text(encoding="utf-8")
        more_directories = pylock.directories(text, editable=True).keys() - self._directories
        if more_directories:  # uv's cache may have the dependencies of an older state
            self._directories |= more_directories
            return self.answer(floors, only_binary=only_binary)
        return pylock.with_absolute_paths(text, self.directory)

    def newest(self) -> str:
        """Return a lock of the newest allowed versions of the named packages, without dependencies; "" on failure."""
        asks_index = all(requirement.is_of_index for requirement in self.plan.requested.requirements)
        uv = replace(self.uv, unbuilt=None) if asks_index else self.uv  # an index gives versions without a build
        return self._tried(uv.run_again, "pylock.newest.toml", "--no-deps")

    def askers(self, name: str) -> str:
        """Return the comma-separated names of the packages that require a package. `you` is the user."""
        user_file = f"-r {self.directory / WANTED}"
        requirers = self.annotations().get(name, [user_file])
        return ", ".join("you" if requirer == user_file else requirer.removeprefix("-r ") for requirer in requirers)

    def annotations(self) -> dict[str, list[str]]:
        """Return the packages that require each package, from the comments in uv's output. `-r FILE` is the user."""
        arguments = [*self._arguments(), "--annotation-style", "line", "--no-strip-extras"]
        pairs = (line.partition("# via ") for line in self.uv.run_again(arguments).splitlines())
        requirers = {re.split(r"[\s\[=@]", package, maxsplit=1)[0]: via for package, _, via in pairs if via}
        return {canonical(name): [requirer.strip() for requirer in via.split(",")] for name, via in requirers.items()}

    def explained(
        self, error: UenvtoolError, older: Mapping[str, str], outdated: Collection[str] = ()
    ) -> UenvtoolError:
        """Return uv's error with hints for versions that fit.

        older: the versions that --allow-older would install.
        outdated: the names of the packages in `older` that are too old for a hint.
        """
        if not isinstance(error, NoSolution):
            return error
        named = {canonical(word) for word in re.findall(r"[A-Za-z0-9][\w.-]*", error.explanation)}
        base_packages = sorted(named & self.pins.keys())
        recent = {name: version for name, version in older.items() if name not in outdated}
        versions = ", ".join(f"{name} {version}" for name, version in recent.items())
        replaced = self.plan.requested.names & self.base.packages.keys() - self.pins.keys()
        hints = ["keep the base's packages with --keep-base"] if replaced else []
        hints += [f"install {versions}, the newest that fits, with --allow-older"] if recent else []
        others, too_old = self._fitting(named - older.keys()) if base_packages else ({}, frozenset[str]())
        hints += [_elsewhere(name) for name in sorted({*too_old, *(older.keys() & outdated)})]
        versions = ", ".join(f"{name}=={version}" for name, version in others.items())
        hints += [f"request {versions}, the newest that fits the base"] if others else []
        if not hints:
            hints = ["request versions that fit" if base_packages else "request versions that exist and fit together"]
        for name in base_packages:
            cost = f" (protected: {rule.cost})" if (rule := compat.protected(name)) else ""
            hints.append(f"or replace the base's {name} with --override {name}{cost}")
        packages = map(self.base.packages.__getitem__, base_packages)
        of_base = ", ".join(f"{package.name} {package.version}" for package in packages)
        return NoSolution(error.explanation, note=of_base and f"  the base has {of_base}", hint="; ".join(hints))

    def _fitting(self, names: set[str]) -> tuple[dict[str, str], frozenset[str]]:
        """Return the versions that fit the base, and the names of the packages that fit only in an outdated version."""
        from packaging.specifiers import SpecifierSet

        candidates = names - self.base.packages.keys()
        requested = [requirement for requirement in self.plan.requested.requirements if requirement.name in candidates]
        requested = [requirement for requirement in requested if requirement.operators and requirement.is_of_index]
        if not requested:
            return {}, frozenset()
        unbound = [copy.copy(requirement.requirement) for requirement in requested]
        for requirement in filter(None, unbound):
            requirement.specifier = SpecifierSet()
        fill(self.directory, {"unbound.txt": _lines(map(str, unbound))})
        options: list[str | Path] = ["--overrides", self.directory / "unbound.txt", "--only-binary", ":all:"]
        text = self._tried(self.uv.run, "pylock.fitting.toml", *options)
        versions = pylock.versions_of(text)
        outdated = pylock.much_older(text, self.newest()) & {requirement.name for requirement in requested}
        fitting = [requirement.name for requirement in requested if requirement.name in versions.keys() - outdated]
        return {name: versions[name] for name in fitting}, outdated

    def _tried(self, run: Callable[[Arguments], str], name: str, *options: str | Path) -> str:
        path = self.directory / name
        try:
            run([*self._arguments(), *options, "--format", pylock.LOCK, "-o", path])
        except (NoSolution, BuildFailed, IndexFailed):
            return ""  # the main resolution reports the same problem
        return path.read_text(encoding="utf-8")

    def _arguments(self) -> list[str | Path]:
        arguments: list[str | Path] = ["pip", "compile", "--python", self.base.python, "--no-header", "--quiet"]
        arguments += ["-c", self.directory / "pins.txt", "-c", self.directory / "constraints.txt"]
        arguments += ["--overrides", self.directory / "overrides.txt"]
        return [*arguments, self.directory / WANTED, *self.plan.requested.sources]

    def _user_constraints(self) -> Iterator[str]:
        # Constraints that the base satisfies are left out, because NVIDIA's images pin their own builds.
        for constraint in self.plan.requested.constraints:
            package = self.base.packages.get(constraint.name) if constraint.name in self.pins else None
            specifier = constraint.requirement.specifier if constraint.requirement else None
            is_met = package is not None and specifier is not None and compat.satisfies(specifier, package.version)
            if not is_met and not constraint.read_by_uv:
                yield constraint.text


def _elsewhere(name: str) -> str:
    """Return a hint that names the published uenvs and the container recipes that have a package."""
    from uenvtool.knowledge.container import load_container
    from uenvtool.knowledge.kinds import CONTAINER, PUBLISHED
    from uenvtool.knowledge.locate import available
    from uenvtool.knowledge.published import load_published
    from uenvtool.knowledge.recipe import read_recipe

    has = [
        f"the uenv {read_recipe(recipe_name).deployment.label} ({row.name} {row.version})"
        for recipe_name in available(PUBLISHED, user_files=False)
        for row in load_published(recipe_name).rows
        if row.kind == "python" and canonical(row.name) == name
    ]
    containers = [load_container(container_name) for container_name in available(CONTAINER, user_files=False)]
    has += [f"the container {container.recipe}" for container in containers if name in names_of(container.pip)]
    where = f"use {' or '.join(dict.fromkeys(has))}" if has else "use a container or another base"
    return f"{where}, which has {name}: the newest {name} that fits this base is more than two years old"


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _requires_any(names: frozenset[str], requirer: str, base: Base) -> bool:
    return any(
        (required := canonical(requirement.name)) in names
        and compat.satisfies(requirement.specifier, base.packages[required].version)
        for requirement in compat.requirements(base.packages[requirer], compat.marker_environment(base))
    )


def _requested_as_vendor_build(plan: OverlayPlan) -> frozenset[str]:
    names = set()  # the packages requested in exactly the vendor build's version, as `pip freeze` prints it
    for requirement in (*plan.requested.requirements, *plan.requested.constraints):
        package = plan.base.packages.get(requirement.name)
        specifier = requirement.requirement.specifier if requirement.requirement else None
        if package is None or specifier is None or not compat.is_version(package.version):
            continue
        accepts_release = specifier.contains(compat.as_release(package.version), prereleases=True)
        if specifier.contains(package.version, prereleases=True) and not accepts_release:
            names.add(requirement.name)
    return frozenset(names)


def _write_stubs(directory: Path, base: Base) -> dict[str, str]:
    environment = compat.marker_environment(base)
    contents: dict[str, bytes] = {}
    pins: dict[str, str] = {}
    for name, distribution in sorted(base.packages.items()):
        if compat.is_version(distribution.version):
            version = compat.as_release(distribution.version)
            stem = f"{name.replace('-', '_')}-{version.replace('-', '_')}"
            requires = list(_stub_requirements(distribution, base, environment))
            contents[f"{stem}-py3-none-any.whl"] = _stub(stem, name, version, requires, distribution.extras)
            pins[name] = f"{name} @ {(directory / f'{stem}-py3-none-any.whl').as_uri()}"
    fill(directory, contents)
    return pins


def _stub(stem: str, name: str, version: str, requires: Sequence[str], extras: Sequence[str]) -> bytes:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    wheel = "Wheel-Version: 1.0\nGenerator: uenvtool\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file, text in (("METADATA", "\n".join(lines) + "\n"), ("WHEEL", wheel), ("RECORD", "")):
            archive.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", (1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def _stub_requirements(distribution: Distribution, base: Base, environment: dict[str, str]) -> Iterator[str]:
    # A package that replaces the base's must fit the requirements that the base satisfies. A user may request an extra.
    # Nothing is installed for other requirements, which the base itself does not satisfy.
    for requirement in compat.requirements(distribution, None):
        package, marker = base.packages.get(canonical(requirement.name)), requirement.marker
        if package is not None and compat.satisfies(requirement.specifier, package.version) and not requirement.url:
            if compat.is_version(package.version) and compat.as_release(package.version) != package.version:
                requirement.specifier = type(requirement.specifier)()  # the stub has the release's version
            yield str(requirement)
        elif marker is not None and "extra" in str(marker) and not marker.evaluate({**environment, "extra": ""}):
            yield str(requirement)
