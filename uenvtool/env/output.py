"""Reads Spack's output to show the progress of an installation and to explain failures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import last_lines
from uenvtool.env.program import Spack

_HASH = r"-[a-z0-9]{32}"
_EXTRACTING = re.compile(rf"==> Extracting (\S+){_HASH} from binary cache")
_INSTALLING = re.compile(rf"==> Installing (\S+){_HASH} \[\d+/\d+\]")
_INSTALLED = re.compile(rf"==> [^:]+: Successfully installed (\S+){_HASH}")
_IN_PLACE = re.compile(r"\[\+\] /.*-([a-z0-9]{7})[a-z0-9]{25}\)?$")
_STATE = re.compile(r"\[([ +e])\] ([a-z0-9]{7}) (\S+)@(\S+) (.*?)(?: \(|$)")
"""A line of Spack 1.2: mark, hash, name, version, state or prefix (new_installer.py, _generate_line_components)."""
_UNPACKING = ("fetching from build cache", "relocating")
MAX_CLASH_LINES = 9
"""The maximum number of lines with conflicting requests. With the heading, an error has ten lines."""
MAX_CAUSE_LINES = 3
MAX_LINE_WIDTH = 160
SIGNALLED = 128
"""The exit code of a killed program is SIGNALLED plus the signal's number, in shells and in scripts/with_mount.py."""
_CAUSE_INDENT = 8
_BUILD_LOG = re.compile(r"^(?:See \w+ log for details:\n\s+|\[x\] \S+ \S+ failed: )(/\S+)", re.MULTILINE)
"""The log of a failed build. Spack 1.1 prints its path at the end, Spack 1.2 in the line of the package."""

KNOWN_FAILURES = (
    (
        r'cannot bootstrap the "clingo" Python module',
        "Spack's Python does not have the solver clingo, and Spack could not download it",
        "run `python3 -m pip install clingo`, then set SPACK_PYTHON to the path of that python3",
    ),
    (
        r"Failed to clone repository (?P<name>[\w-]+)",
        "Spack could not fetch the package repository {name}",
        "check the network, or use a copy on disk: --repo {name}=PATH",
    ),
    (
        r"unable to access 'https?://|Could not resolve host|fatal: could not read from remote",
        "Spack could not fetch a package repository",
        "check the network, or use a copy on disk of each entry of `repos:` in spack.yaml: --repo NAME=PATH",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "free some space, or set TMPDIR to a directory on another disk",
    ),
    (
        r"with_mount: cannot (create|mount) ",
        "the store cannot be mounted at the mount point",
        "check that the mount point exists, then run as root or allow user namespaces",
    ),
    (
        r"this Spack has no [\w.]+|this Spack sees ",
        "this Spack cannot resolve for another machine, because its internals differ from Spack 1.1 and 1.2",
        "use the Spack that the recipe pins, or resolve on a node",
    ),
)
"""A pattern, a message and a hint for each failure that Spack 1.1.0 does not explain.

The last two failures come from uenvtool's scripts. Messages and hints may use the groups of the pattern.
"""


@dataclass(slots=True)
class InstallOutput:
    """The progress of one `spack install`, from its output (Spack v1.1.0, installer.py; v1.2.0, new_installer.py).

    total: the number of packages in the environment. done: the first seven characters of the hash of each installed
    package, including packages of the system and of earlier runs. cached, built: the packages that this run took from
    a build cache or built, as NAME-VERSION. current: the package that Spack started last.
    """

    total: int
    done: set[str] = field(default_factory=set)
    cached: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    current: str = ""
    _extracted: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)

    def take(self, line: str) -> bool:
        """Update the progress from a line of output, and return whether Spack started another package."""
        if match := _STATE.match(line):
            return self._take_state(match[1], match[2], f"{match[3]}-{match[4]}", match[5])
        if match := _EXTRACTING.match(line):
            self._extracted.add(match[1])
            return self._begin(match[1])
        if match := _INSTALLING.match(line):  # for an extracted package this line comes late
            return self._begin(match[1])
        if match := _INSTALLED.match(line):
            self._finish(match[1])
        elif match := _IN_PLACE.match(line):
            self.done.add(match[1])
        return False

    def text(self) -> str:
        """Return the progress as one line. The counts come first, since a narrow terminal cuts off the end."""
        origin = "unpacking" if self.current in self._extracted else "building"
        counts = [f"{len(self.done)} done, {max(0, self.total - len(self.done))} left"]
        counts += [f"{len(self.cached)} cached"] if self.cached else []
        counts += [f"{len(self.built)} built"] if self.built else []
        return f"{', '.join(counts)}; {origin} {self.current}"

    def _take_state(self, mark: str, key: str, package: str, state: str) -> bool:
        if mark == " ":
            (self._extracted.add if state in _UNPACKING else self._extracted.discard)(package)
            return self._begin(package)
        self.done.add(key)
        if mark == "+":
            self._finish(package)
        return False

    def _finish(self, package: str) -> None:
        (self.cached if package in self._extracted else self.built).append(package)

    def _begin(self, package: str) -> bool:
        is_new = package not in self._begun
        self._begun.add(package)
        self.current = package if is_new else self.current
        return is_new


def explain_failure(spack: Spack, *, code: int, output: str, log: Path) -> ToolFailed:
    """Return the error for a failed run of Spack. log: the file with its complete output."""
    hint = f"see Spack's complete output in {log}"
    if clash_lines := clashes(output):
        listed = "\n".join(f"  {line}" for line in clash_lines)
        return ToolFailed(f"Spack {spack.version} found no solution; these requests conflict:\n{listed}", hint=hint)
    if code < 0:
        hint = f"run the command again; the old lock is unchanged\n{hint}"
        return ToolFailed(f"Spack {spack.version} was killed by signal {-code}", hint=hint)
    for pattern, *texts in KNOWN_FAILURES:
        if match := re.search(pattern, output):
            message, fix = (text.format(**match.groupdict()) for text in texts)
            return ToolFailed(f"{message} (Spack {spack.version})", hint=f"{fix}\n{hint}")
    errors = [line for line in output.splitlines() if line.startswith("==> Error")] or output.strip().splitlines()
    reason = errors[0].removeprefix("==> Error:").strip() if errors else "it printed nothing"
    return ToolFailed(f"Spack {spack.version} failed (exit code {code}): {reason}", hint=hint)


def explain_failed_install(spack: Spack, *, code: int, output: str, log: Path) -> ToolFailed:
    """Return the error for a failed installation: the package, the last lines of its log, and the path of the log."""
    resume = f"run the command again to continue; installed packages stay\nsee Spack's complete output in {log}"
    if code > SIGNALLED:
        return ToolFailed(f"Spack {spack.version} was killed by signal {code - SIGNALLED}", hint=resume)
    if unfetched := re.search(r"All fetchers failed for spack-stage-(\S+)-[a-z0-9]{32}", output):
        message = f"Spack {spack.version} could not fetch the source of {unfetched[1]}"
        return ToolFailed(message, hint=f"check the network, or name a source mirror: --mirror URL\n{resume}")
    build_log = _BUILD_LOG.search(output)
    if build_log is None:
        return explain_failure(spack, code=code, output=output, log=log)
    package = re.search(r"/spack-stage-(\S+)-[a-z0-9]{32}[/-]", build_log[1])
    lines = "".join(f"\n  {line}" for line in last_lines(Path(build_log[1])))
    error = re.search(r"^==> Error: (\w+: .+)$", output, re.MULTILINE)  # the log may not contain the final error
    reason = f": {error[1].rstrip(':')}" if error else ""
    message = f"Spack {spack.version} could not install {package[1] if package else 'a package'}{reason}{lines}"
    return ToolFailed(message, hint=f"see the package's log in {build_log[1]}\n{resume}")


def explain_failed_push(spack: Spack, *, url: str, code: int, output: str, log: Path) -> ToolFailed:
    """Return the error for a failed push to a build cache."""
    missing_key = r"No default key|no signing key|Cannot sign|No keys available|PickKeyException"
    if re.search(missing_key, output, re.IGNORECASE):
        return no_key(spack)
    failure = explain_failure(spack, code=code, output=output, log=log)
    message = f"the packages could not be pushed to {url}: {failure.problems[0].message}"
    return ToolFailed(message, hint=f"see Spack's complete output in {log}")


def no_key(spack: Spack) -> ToolFailed:
    """Return the error for a push of signed packages if Spack has no key."""
    hint = "create a key with `spack gpg create NAME EMAIL`, or push unsigned packages with --unsigned"
    return ToolFailed(f"Spack {spack.version} has no key to sign packages with", hint=hint)


def clashes(output: str) -> list[str]:
    """Return at most MAX_CLASH_LINES lines of Spack's output that show the conflicting requests.

    Spack numbers the reasons and indents the chain of causes below each reason. The most useful reasons name both
    conflicting requests and have several nearest causes. Short reasons contain the same facts as long reasons.
    """
    by_length = sorted(_reasons(output), key=len)
    two_sided = [reason for reason in by_length if " and " in reason[0]]
    reasons = [reason for reason in two_sided if len(_nearest_causes(reason)) > 1] or two_sided or by_length
    lines: list[str] = []
    for reason in reasons:
        block = [reason[0], *(f"  {line}" for line in _nearest_causes(reason))][:MAX_CAUSE_LINES]
        if lines and len(lines) + len(block) > MAX_CLASH_LINES:
            break
        lines += [line for line in map(_without_noise, block) if line not in lines]
    return lines


def _reasons(output: str) -> list[list[str]]:
    reasons: list[list[str]] = []
    for line in output.splitlines():
        if match := re.match(r" {1,6}[0-9]+\. (.*)", line):
            reasons.append([match[1].strip()])
        elif reasons and line.startswith(" " * _CAUSE_INDENT):
            reasons[-1].append(line)
        elif line.startswith("==>") and reasons:
            break
    return reasons


def _nearest_causes(reason: list[str]) -> list[str]:
    causes = [line.strip() for line in reason[1:] if len(line) - len(line.lstrip()) == _CAUSE_INDENT]
    return list(dict.fromkeys(causes))


def _without_noise(line: str) -> str:
    line = re.sub(r"\. You could consider setting .*", "", line)
    line = re.sub(r" (os|target)=[\w.-]+", "", line).rstrip()  # every spec names the architecture
    return line if len(line) <= MAX_LINE_WIDTH else line[: MAX_LINE_WIDTH - 3] + "..."
