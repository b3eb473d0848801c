"""What Spack prints: how far an installation is, and what a failure means, in a few lines."""

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
"""A line of Spack 1.2 (new_installer.py, _generate_line_components): mark, hash, name, version, state or prefix."""
_UNPACKING = ("fetching from build cache", "relocating")
MAX_CLASH_LINES = 9
"""Lines for the requests that clash; with the line above them ten."""
MAX_CAUSE_LINES = 3
MAX_LINE_WIDTH = 160
SIGNALLED = 128
"""Added to a signal's number in an exit code, as shells and scripts/with_mount.py do."""
_CAUSE_INDENT = 8
_BUILD_LOG = re.compile(r"^(?:See \w+ log for details:\n\s+|\[x\] \S+ \S+ failed: )(/\S+)", re.MULTILINE)
"""Where Spack says which log a failed build has: 1.1 at its end, 1.2 in a line of the package."""


KNOWN_FAILURES = (
    (
        r'cannot bootstrap the "clingo" Python module',
        "Spack's Python has no clingo, its solver, and Spack could not fetch it",
        "install it (`python3 -m pip install clingo`) and name that Python: SPACK_PYTHON=/path/to/python3",
    ),
    (
        r"Failed to clone repository (?P<name>[\w-]+)",
        "Spack could not fetch the package repository {name}",
        "check the network, or take it from disk: --repo {name}=FOLDER",
    ),
    (
        r"unable to access 'https?://|Could not resolve host|fatal: could not read from remote",
        "Spack could not fetch a package repository",
        "check the network, or take each of the `repos:` in spack.yaml from disk: --repo NAME=FOLDER",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "free space, or set TMPDIR to a folder that has some",
    ),
    (
        r"with_mount: no ",
        "this machine gives no place to install to",
        "the mount point must exist, and a user may need rights for it: run as root, or allow user namespaces",
    ),
    (
        r"this Spack has no [\w.]+|this Spack sees ",
        "this Spack cannot resolve for another machine: its internals are not those of Spack 1.1 and 1.2",
        "use the Spack that the recipe pins, or make the lock on a node",
    ),
)
"""Failures that Spack's own words (1.1.0) do not explain, the last two of our scripts: what the output has, message and
hint, which may name its groups."""


@dataclass(slots=True)
class InstallOutput:
    """What one `spack install` has said so far (Spack v1.1.0, installer.py; v1.2.0, new_installer.py).

    total: how many packages the environment has. done: the first seven letters of the hashes of those that are there
    now, of the system and of earlier runs too. cached, built: the packages that this run took from a build cache, or
    built, as NAME-VERSION. current: the one that was begun last.
    """

    total: int
    done: set[str] = field(default_factory=set)
    cached: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    current: str = ""
    _extracted: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)

    def take(self, line: str) -> bool:
        """Take a line of Spack's. Gives True if another package is worked on now."""
        if found := _STATE.match(line):
            return self._take_state(found[1], found[2], f"{found[3]}-{found[4]}", found[5])
        if found := _EXTRACTING.match(line):
            self._extracted.add(found[1])
            return self._begin(found[1])
        if found := _INSTALLING.match(line):  # after an extraction it comes late
            return self._begin(found[1])
        if found := _INSTALLED.match(line):
            self._finish(found[1])
        elif found := _IN_PLACE.match(line):
            self.done.add(found[1])
        return False

    def text(self) -> str:
        """Return the state in a line that begins with what must not be cut off a terminal."""
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
    """Return the error for a run of Spack that failed. log: the file that has its whole output."""
    hint = f"Spack's whole output: {log}"
    clash_lines = clashes(output)
    if clash_lines:
        listed = "\n".join(f"  {line}" for line in clash_lines)
        return ToolFailed(f"Spack {spack.version} finds no solution; these requests clash:\n{listed}", hint=hint)
    if code < 0:
        return ToolFailed(f"Spack {spack.version} was killed by signal {-code}", hint=f"{hint}; the old lock stays")
    for pattern, *texts in KNOWN_FAILURES:
        if match := re.search(pattern, output):
            message, way_out = (text.format(**match.groupdict()) for text in texts)
            return ToolFailed(f"{message} (Spack {spack.version})", hint=f"{way_out}\n{hint}")
    errors = [line for line in output.splitlines() if line.startswith("==> Error")] or output.strip().splitlines()
    why = errors[0].removeprefix("==> Error:").strip() if errors else "it printed nothing"
    return ToolFailed(f"Spack {spack.version} failed (exit code {code}): {why}", hint=hint)


def explain_failed_install(spack: Spack, *, code: int, output: str, log: Path) -> ToolFailed:
    """Return the error for an installation that failed: which package, the last lines of its log, where the log is."""
    going_on = f"Spack's whole output: {log}\nwhat is installed stays; run it again to go on"
    if code > SIGNALLED:
        return ToolFailed(f"Spack {spack.version} was killed by signal {code - SIGNALLED}", hint=going_on)
    if unfetched := re.search(r"All fetchers failed for spack-stage-(\S+)-[a-z0-9]{32}", output):
        message = f"Spack {spack.version} could not fetch the source of {unfetched[1]}"
        return ToolFailed(message, hint=f"check the network, or name a source mirror: --mirror URL\n{going_on}")
    build_log = _BUILD_LOG.search(output)
    if build_log is None:
        return explain_failure(spack, code=code, output=output, log=log)
    package = re.search(r"/spack-stage-(\S+)-[a-z0-9]{32}[/-]", build_log[1])
    lines = "".join(f"\n  {line}" for line in last_lines(Path(build_log[1])))
    error = re.search(r"^==> Error: (\w+: .+)$", output, re.MULTILINE)  # what ended it need not be in the log
    why = f": {error[1].rstrip(':')}" if error else ""
    message = f"Spack {spack.version} could not install {package[1] if package else 'a package'}{why}{lines}"
    return ToolFailed(message, hint=f"the package's log: {build_log[1]}\n{going_on}")


def explain_failed_push(spack: Spack, *, url: str, code: int, output: str, log: Path) -> ToolFailed:
    """Return the error for packages that did not get into a build cache."""
    if re.search(
        r"No default key|no signing key|Cannot sign|No keys available|PickKeyException", output, re.IGNORECASE
    ):
        return no_key(spack)
    failure = explain_failure(spack, code=code, output=output, log=log)
    return ToolFailed(f"the packages are not in {url}: {failure.problems[0].message}", hint=f"Spack's output: {log}")


def no_key(spack: Spack) -> ToolFailed:
    """Return the error for packages that are to be signed where Spack has no key."""
    hint = "make a key (`spack gpg create NAME EMAIL`), or push without: --unsigned"
    return ToolFailed(f"Spack {spack.version} has no key to sign packages with", hint=hint)


def clashes(output: str) -> list[str]:
    """Return which requests clash, in at most ten lines, of all that Spack prints if there is no solution.

    Spack numbers its reasons and indents the causes of each below it, again for every package on the
    way. A reason that names two sides, with its nearest causes, helps most; the shortest of these say
    the same as the longer ones.
    """
    found = sorted(_reasons(output), key=len)
    two_sided = [reason for reason in found if " and " in reason[0]]
    reasons = [reason for reason in two_sided if len(_nearest_causes(reason)) > 1] or two_sided or found
    lines: list[str] = []
    for reason in reasons:
        block = [reason[0], *(f"  {line}" for line in _nearest_causes(reason))][:MAX_CAUSE_LINES]
        if lines and len(lines) + len(block) > MAX_CLASH_LINES:
            break
        lines += [line for line in map(_without_noise, block) if line not in lines]
    return lines


def _reasons(output: str) -> list[list[str]]:
    found: list[list[str]] = []
    for line in output.splitlines():
        if match := re.match(r" {1,6}[0-9]+\. (.*)", line):
            found.append([match[1].strip()])
        elif found and line.startswith(" " * _CAUSE_INDENT):
            found[-1].append(line)
        elif line.startswith("==>") and found:
            break
    return found


def _nearest_causes(reason: list[str]) -> list[str]:
    causes = [line.strip() for line in reason[1:] if len(line) - len(line.lstrip()) == _CAUSE_INDENT]
    return list(dict.fromkeys(causes))


def _without_noise(line: str) -> str:
    """Return a line without Spack's general advice and the architecture that every spec carries."""
    line = re.sub(r"\. You could consider setting .*", "", line)
    line = re.sub(r" (os|target)=[\w.-]+", "", line).rstrip()
    return line if len(line) <= MAX_LINE_WIDTH else line[: MAX_LINE_WIDTH - 3] + "..."
