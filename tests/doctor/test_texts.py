"""The texts of known lines are found the same with ahocorasick_rs and with RE2 alone, where it has no wheel."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.samples import FIRES, HEALTHY
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.texts import Search, pattern_search, quick_search
from uenvtool.doctor.log.verdict import examined, with_last_words
from uenvtool.knowledge.finding import load_findings

LOGS = sorted((Path(__file__).parent / "logs").glob("*.txt"))
LETTERS = st.sampled_from(b"ab.(\n\x80\xff").map(lambda byte: bytes([byte]))


def words(most: int) -> st.SearchStrategy[bytes]:
    return st.lists(LETTERS, min_size=1, max_size=most).map(b"".join)


def by_definition(texts: list[bytes], data: bytes) -> list[tuple[int, int, int]]:
    places = [
        (number, start, start + len(text))
        for number, text in enumerate(texts)
        for start in range(len(data))
        if data.startswith(text, start)
    ]
    return sorted(places, key=lambda place: (place[2], place[1]))


@given(st.lists(words(5), unique=True, max_size=8), words(40))
def test_a_pattern_finds_every_text_also_within_another(texts: list[bytes], data: bytes) -> None:
    assert list(pattern_search(texts)(data)) == by_definition(texts, data)


@given(st.lists(words(5), unique=True, max_size=8), words(40))
def test_so_does_the_automaton(texts: list[bytes], data: bytes) -> None:
    pytest.importorskip("ahocorasick_rs", reason="needs ahocorasick_rs, which has no wheel for this Python")
    assert list(quick_search(texts)(data)) == by_definition(texts, data)


def test_logs_say_the_same_either_way() -> None:
    pytest.importorskip("ahocorasick_rs", reason="needs ahocorasick_rs, which has no wheel for this Python")
    known = load_findings()
    lines = [log.encode() for logs in (*FIRES.values(), HEALTHY.values()) for log in logs]
    logs = {"samples": b"\n".join(lines), **{path.name: path.read_bytes() for path in LOGS}}

    def said(search: Callable[[Sequence[bytes]], Search]) -> Examination:
        seen = read_logs([(name, io.BytesIO(log)) for name, log in logs.items()], Scanner(known, search))
        return with_last_words(examined(seen, known), seen, known)

    quick = said(quick_search)

    assert quick.findings
    assert said(pattern_search) == quick


def test_doctor_reads_a_log_without_the_package(tmp_path: Path) -> None:
    log = LOGS[0]
    start = "import sys; {}from uenvtool.__main__ import main; main()"
    told = [
        subprocess.run(
            [sys.executable, "-c", start.format(without), "doctor", "--log", log],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )
        for without in ("sys.modules['ahocorasick_rs'] = None; ", "")
    ]  # fmt: skip

    assert (told[0].returncode, told[0].stdout) == (told[1].returncode, told[1].stdout)
    assert (told[0].returncode, told[0].stderr) == (1, told[1].stderr)
    assert log.stem in told[0].stdout
