"""Answers of uv and of a base's Python: the same question on the same files is asked once.

Those of uv's resolver are kept in recorded.json; one that is not there is asked for real, and kept if
UENVTOOL_TEST_RECORD is set. What a Python says is kept for this session. With UENVTOOL_TEST_ASK=1 all are asked for
real, and so they are with --slow: a newer uv that answers otherwise is found there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from uenvtool.core.processes import Completed

KEPT = Path(__file__).parent / "recorded.json"
RECORD, ASK = "UENVTOOL_TEST_RECORD", "UENVTOOL_TEST_ASK"
OF_A_PYTHON = re.compile(r"PYTHON\w*|VIRTUAL_ENV|UV_\w+")
OTHERS = re.compile(r"^\s*(-[rcf]|--(requirement|constraint|find-links))\b", re.MULTILINE)
SKIPPED_VARIABLES = {"UV_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"}
METADATA = ("METADATA", "entry_points.txt")
Run = Callable[..., Completed]


@functools.cache
def version_of(python: str) -> str:
    """Ask a Python whose name does not say it for its version."""
    code = "import sys; print('python%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


class Recorded:
    """Stands in for `processes.run` in a test. place: the test's own folder, whose name is no part of a question."""

    of_session: ClassVar[dict[str, Any]] = {}

    def __init__(self, run: Run, place: Path) -> None:
        self.run, self.place = run, str(place)
        if not self.of_session and KEPT.is_file():
            self.of_session.update(json.loads(KEPT.read_text()))

    def __call__(self, words: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **more: Any) -> Completed:
        argv = tuple(map(str, words))
        if os.environ.get(ASK) or not self._is_kept_kind(argv, env or {}):
            return self.run(words, env=env, **more)
        work = os.path.dirname((env or {}).get("TMPDIR", "")) if "compile" in argv else ""
        key = self._key(argv, env or {}, work)
        answer = self.of_session.get(key)
        if answer is None:
            completed = self.run(words, env=env, **more)
            written = self._named(self._output(argv), work)
            answer = {"code": completed.code, "stdout": completed.stdout, "stderr": completed.stderr, "file": written}
            answer = {name: self._named(value, work) for name, value in answer.items()}
            self.of_session[key] = answer
            if os.environ.get(RECORD) and "compile" in argv:
                kept = {**(json.loads(KEPT.read_text()) if KEPT.is_file() else {}), key: answer}
                KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
            return completed
        found = {name: self._filled(value, work) for name, value in answer.items()}
        if found["file"] is not None:
            Path(argv[argv.index("-o") + 1]).write_text(found["file"])
        return Completed(argv, found["code"], found["stdout"], found["stderr"])

    def _is_kept_kind(self, argv: Sequence[str], env: Mapping[str, str]) -> bool:
        """Tell if the answer depends on nothing but files of the test: not on an index, for example."""
        if any(word.endswith("probe.py") for word in argv):
            return argv[0].startswith(self.place) and len(argv) == 2
        return (
            argv[1:3] == ("pip", "compile")
            and not any(map(self._names_others, argv))
            and "--no-index" in argv
            and "UV_CACHE_DIR" in env
            and bool(self._wheels(argv))
        )

    @staticmethod
    def _names_others(word: str) -> bool:
        """Tell if uv reads what is no part of the question: a URL, or files that a file names."""
        is_file = word.endswith((".in", ".txt")) and os.path.isfile(word)
        return word.startswith("http") or (is_file and bool(OTHERS.search(Path(word).read_text(errors="replace"))))

    def _wheels(self, argv: Sequence[str]) -> list[Path]:
        """List the wheels and archives that a resolver may take, none if they are not all in folders of the test."""
        folders = [Path(argv[at + 1]) for at, word in enumerate(argv) if word == "--find-links"]
        if not all(str(folder).startswith(self.place) for folder in folders):
            return []
        return sorted(path for folder in folders for path in folder.glob("*"))

    def _output(self, argv: Sequence[str]) -> str | None:
        path = Path(argv[argv.index("-o") + 1]) if "-o" in argv else None
        return path.read_text() if path and path.is_file() else None

    def _key(self, argv: Sequence[str], env: Mapping[str, str], work: str) -> str:
        """Sum up all that the answer depends on."""
        digest = hashlib.sha256()
        for part in self._question(argv, env):
            digest.update(str(self._named(part, work)).encode("utf-8", "surrogateescape") + b"\0")
        return digest.hexdigest()[:24]

    def _question(self, argv: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
        yield from argv[1:] if "compile" in argv else [os.path.realpath(argv[0])]
        for name, value in sorted(env.items()):
            if OF_A_PYTHON.fullmatch(name) and name not in SKIPPED_VARIABLES:
                yield f"{name}={value}"
        for word in argv:
            if os.path.isfile(word) and word.endswith((".in", ".txt")):
                yield Path(word).read_text()
        if "compile" in argv:
            python = os.path.basename(os.path.realpath(argv[argv.index("--python") + 1]))
            yield python if "." in python else version_of(argv[argv.index("--python") + 1])
            for path in self._wheels(argv):
                yield f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ''}"
            yield from sorted(self._stubs(argv))
        else:
            for root in dict.fromkeys([str(Path(argv[0]).parents[1]), *env.get("PYTHONPATH", "").split(":")]):
                for here, folders, names in os.walk(root):
                    folders.sort()
                    yield here
                    yield from (Path(here, name).read_text() for name in METADATA if name in names)
                    yield from sorted(name for name in names if name.endswith((".pth", ".cfg")))

    @staticmethod
    def _stubs(argv: Sequence[str]) -> Iterator[str]:
        for word in argv:
            for path in Path(word).parent.glob("base/*.whl") if word.endswith(".in") else ():
                yield f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"

    def _named(self, value: Any, work: str) -> Any:
        """Put names in place of the folders that differ from run to run."""
        if not isinstance(value, str):
            return value
        value = value.replace(work, "@WORK@") if work else value
        return value.replace(self.place, "@PLACE@")

    def _filled(self, value: Any, work: str) -> Any:
        return value.replace("@WORK@", work).replace("@PLACE@", self.place) if isinstance(value, str) else value
