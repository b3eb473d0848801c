"""Diagnosis of a job's output: every known line is found, and healthy runs have no finding."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Cli, Write
from tests.doctor.samples import ALSO, FIRES, HEALTHY, TWO_NODES
from tests.doctor.test_bandwidth import OLD_TORCH
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.log.blocks import BLOCK_BYTES
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined, with_quotes
from uenvtool.doctor.report import report, settings_of
from uenvtool.doctor.request import DoctorRequest
from uenvtool.knowledge.finding import load_findings

KNOWN = load_findings()
SCANNER = Scanner(KNOWN)
WATCHDOG = (
    "[rank{0}]:[E626 06:24:44.903 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600020 milliseconds\n"
)
ENQUEUED = (
    "[rank{0}]:[E626 06:24:44.906 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception "
    "(either an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: {1}, last completed NCCL "
    "work: 807.\n"
)
ENQUEUED_2_6 = (
    "[rank{0}]:[E626 06:24:44.906 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {0}] failure detected "
    "by watchdog at work sequence id: 808 PG status: last enqueued work: {1}, last completed work: 807\n"
)
TRACEBACK = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "train.py", line 9, in main\n'
    "[rank{0}]: ValueError: batch {0} is empty\n"
)
STEPS = "".join(f"3: epoch {step} | loss: 0.{step} | 99 samples/s\n" for step in range(9))
LIMIT = FIRES["time-limit"][0]
SIGNS = (
    "run.sh: line 13: sudo: command not found\n",
    "n1:9:9 [0] x.cc:1 NCCL WARN Odd thing\n",
    TRACEBACK.format(3),
    "slurmstepd: error: Odd accounting\n",
)
ABSENT = "cp: cannot stat '/x': No such file or directory\n"


def read(*logs: str | bytes) -> Examination:
    """Return the diagnosis of logs given as text."""
    streams = [(f"log{i}", io.BytesIO(log.encode() if isinstance(log, str) else log)) for i, log in enumerate(logs)]
    seen = read_logs(streams, SCANNER)
    return with_quotes(examined(seen, KNOWN), seen, KNOWN)


def ids(examination: Examination) -> set[str]:
    return {finding.known.id for finding in examination.findings}


def test_every_log_finding_has_a_sample() -> None:
    assert set(FIRES) == {name for name, known in KNOWN.findings.items() if known.log}


@pytest.mark.parametrize(("name", "log"), [(name, log) for name, logs in FIRES.items() for log in logs])
def test_each_sample_shows_only_its_findings(name: str, log: str) -> None:
    assert name in ids(read(log))
    assert ids(read(log)) <= {name} | ALSO.get(name, set())


@pytest.mark.parametrize(
    ("name", "message"), [(name, text) for name, known in KNOWN.findings.items() for text in known.messages]
)
def test_each_message_on_a_findings_page_shows_the_finding(name: str, message: str) -> None:
    assert name in ids(read(message))


def test_each_finding_of_a_log_has_messages_and_each_finding_its_own_title() -> None:
    titles = [known.title for known in KNOWN.findings.values()]

    assert [name for name, known in KNOWN.findings.items() if known.log and not known.messages] == []
    assert all(titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("The client socket has failed to connect to any network address of (nid001, 29500).", "nid001:29500"),
        ("The client socket has failed to connect to [nid001]:29500 (errno: 110 - Timed out).", "[nid001]:29500"),
        ("The IPv4 network addresses of (nid001, 29500) cannot be retrieved (gai error: -2).", "nid001:29500"),
        (
            "The server socket has failed to listen. port: 29500, code: -98, message: address already in use",
            "port: 29500",
        ),
        ("NCCL INFO NET/Plugin: Could not find: ofi libnccl-net-ofi.so.", "libnccl-net-ofi.so"),
    ],
)
def test_the_address_or_library_of_a_message_is_shown(line: str, detail: str) -> None:
    assert [finding.detail for finding in read(line).findings] == [detail]


@pytest.mark.parametrize("log", HEALTHY.values(), ids=list(HEALTHY))
def test_healthy_log_has_no_finding(log: str) -> None:
    assert ids(read(log)) == set()


def test_workarounds_of_findings_exist() -> None:
    from uenvtool.knowledge.tuning import load_all

    remedies = filter(None, (known.workaround for known in KNOWN.findings.values()))
    assert {remedy.name for remedy in remedies} <= set(load_all().workarounds)


def test_findings_and_rules_have_different_ids() -> None:
    from uenvtool.knowledge.rule import load_rules

    assert not load_rules().keys() & KNOWN.findings.keys()


def test_network_is_shown_per_node() -> None:
    lines = [f"nid{i:03}:9:9 [0] NCCL INFO Using network AWS Libfabric" for i in range(1, 5)]
    lines[2] = "nid003:9:9 [0] NCCL INFO Using network Socket"

    seen = read("\n".join(lines))

    assert dict(seen.facts)["NCCL's network"] == "AWS Libfabric on nid[001-002,004]; Socket on nid003"
    assert [(found.known.id, found.where) for found in seen.findings] == [("nccl-tcp", "on nid003")]


def test_finding_on_4000_ranks_is_reported_once() -> None:
    seen = read("".join(WATCHDOG.format(rank) for rank in range(4000)))

    assert [(found.known.id, found.count, found.where) for found in seen.findings] == [
        ("watchdog-timeout", 4000, "on rank 0-3999")
    ]


@pytest.mark.parametrize(
    ("front", "where"),
    [
        ("7: ", "on rank 7"),
        ("[rank7]: ", "on rank 7"),
        ("[default7]:", "on rank 7"),
        ("[1,7]<stderr>:", "on rank 7"),
        ("nid004:77:78 [0] ", "on nid004"),
        ("[nid004:77:0:78] ", "on nid004"),
        ("12:30:01 ", ""),
    ],
)
def test_label_before_a_line_names_its_printer(front: str, where: str) -> None:
    assert read(f"{front}cxil_map: write error\n").findings[0].where == where


def test_joined_lines_of_two_ranks_are_separated() -> None:
    seen = read(
        "n1:9:9 [0] NCCL INFO Using network Socketn2:9:9 [0] NCCL INFO Using network AWS Libfabric\n" + TWO_NODES
    )

    assert dict(seen.facts)["NCCL's network"] == "AWS Libfabric on n2; Socket on n1"


def test_unknown_failure_names_first_rank_and_message() -> None:
    seen = read("step 1\n" + TRACEBACK.format(3) + TRACEBACK.format(0) + "srun: error: nid002: task 3: Exited with 1\n")

    (found,) = seen.findings
    assert (found.known.id, found.place) == ("exception", "log0:2")
    assert found.detail == "rank 3 failed first, with: ValueError: batch 3 is empty at train.py:9 in main; then rank 0"


def test_earliest_line_of_several_logs_is_used() -> None:
    line = "[2026-11-21 10:0{}:00] [rank{}] ValueError: {}\n"

    seen = read(line.format(3, 0, "late"), line.format(1, 5, "early"))

    assert seen.findings[0].detail == "rank 5 failed first, with: ValueError: early; then rank 0"
    assert seen.findings[0].place == "log1:1"


def test_workaround_of_a_network_is_given_only_if_it_is_used() -> None:
    slingshot = "libfabric:5:6::cxi:core:cxip_x():1<warn> n1: odd\n"

    (elsewhere,), (there,) = (read(log + WATCHDOG.format(0)).findings for log in ("", slingshot))

    assert (elsewhere.known.workaround, settings_of(elsewhere.known)) == (None, [])
    assert ("FI_CXI_RDZV_GET_MIN", "0") in settings_of(there.known)


def test_broken_findings_are_in_order_of_occurrence() -> None:
    limit = "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-22T10:00:00 DUE TO TIME LIMIT ***\n"

    seen = read("cxil_map: write error\n" + STEPS + FIRES["image-older"][0] + WATCHDOG.format(0) + limit)

    assert [found.known.id for found in seen.findings] == [
        "cxil-map",
        "watchdog-timeout",
        "time-limit",
        "image-older",
    ]


def test_escape_sequences_and_binary_data_hide_nothing() -> None:
    garbage = random.Random(1).randbytes(300_000)
    coloured = b"\x1b[31mtorch.OutOfMemory\x1b[0mError: x\r 10%|###\rnid001:9:9 [0] cxil_map:\x1b[1m write error\n"

    seen = read(garbage + b"\n" + coloured + garbage)

    assert ids(seen) == {"out-of-memory-gpu", "cxil-map"}
    assert ids(read(garbage)) == set()


def test_text_is_found_anywhere_in_a_line_of_10_mb() -> None:
    fill = b"x" * 10_000_000
    for at in (0, 10, BLOCK_BYTES - 40_000, BLOCK_BYTES - 5, BLOCK_BYTES, 9_999_990):
        seen = read(b"first\n" + fill[:at] + b" cxil_map: write error " + fill[at:] + b"\nlast")

        assert [(found.count, found.place) for found in seen.findings] == [(1, "log0:2")], at


def test_lines_of_many_blocks_are_counted_once_with_line_numbers() -> None:
    line = b"7: some loss 0.123456789 of a step that is like all others\n"
    log = (line * 99_999 + b"cxil_map: write error\n") * 3

    (found,) = read(log).findings

    assert (found.count, found.place) == (3, "log0:100000")


def test_multi_member_and_truncated_gzip_are_read() -> None:
    first = gzip.compress(b"cxil_map: write error\n" * 10_000)
    second = gzip.compress(random.Random(2).randbytes(200_000) + b"\nsrun: error: Node failure on nid004\n")

    assert ids(read(first + second)) == {"cxil-map", "node-failed"}
    cut = read(first + second[:100_000])
    assert ids(cut) == {"cxil-map"}
    assert cut.unseen == ("rest of log0: the gzip file is truncated",)
    small = gzip.compress(b"cxil_map: write error\n" + random.Random(2).randbytes(2_000))
    assert ids(read(small[:1_500])) == {"cxil-map"}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_a_byte_order_mark_is_read(encoding: str) -> None:
    log = "\ufeffläuft\r\n" * 200_000 + "cxil_map: write error\r\n"

    (found,) = read(log.encode(encoding)).findings

    assert (found.known.id, found.place) == ("cxil-map", "log0:200001")
    assert ids(read(gzip.compress(log.encode(encoding)))) == {"cxil-map"}


WARNING = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n"


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (WARNING + "n1: step 1 done\n", [("risk", "driver-too-old")]),
        (
            WARNING + "RuntimeError: CUDA error: invalid device ordinal\n",
            [("broken", "gpu-not-visible"), ("risk", "driver-too-old")],
        ),
        (
            WARNING + "Traceback (most recent call last):\nKeyError: 'x'\n",
            [("broken", "exception"), ("risk", "driver-too-old")],
        ),
        (WARNING + "CUDA driver version is insufficient for CUDA runtime version\n", [("broken", "driver-too-old")]),
    ],
    ids=["the run goes on", "another cause", "a failure without a cause", "and an error of it"],
)
def test_warning_is_a_cause_only_without_another_cause(log: str, found: list[tuple[str, str]]) -> None:
    assert [(one.known.severity, one.known.id) for one in read(log).findings] == found


def test_process_substitution_is_read_as_a_log(cli: Cli) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"cxil_map: write error\n")
    os.close(writing)

    assert cli("doctor", "--log", f"/dev/fd/{reading}").code == 1
    os.close(reading)


KNOWN_TEXTS = [line.text.encode() for known in KNOWN.findings.values() for line in known.log]
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(KNOWN_TEXTS),
    st.sampled_from(
        [b"\n", b"\r", b"\x1b[31m", b"\x1b]0;", b"\x1f\x8b\x08", b"[rank3]:", b"n1:9:9 [0] ", b"\xff\xfe", b"0" * 500]
    ),
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_any_log_is_handled(log: bytes) -> None:
    for finding in read(log).findings:
        finding.data()


@pytest.mark.parametrize("name", FIRES)
def test_truncated_logs_are_read(name: str) -> None:
    log = FIRES[name][0].encode()

    for end in range(0, len(log), max(len(log) // 12, 1)):
        assert ids(read(log[:end])) <= {name} | ALSO.get(name, set()) | CUT.get(name, set()) | FALLBACKS


CUT = {
    "roce-gid": {"nccl-unreachable"},
    "step-launch": {"slurm-refused"},
    "miopen-ended": {"miopen-database"},
    "user-unknown": {"container-start"},
    "container-pull": {"container-start"},
    "container-path": {"container-start"},
    "disk-full": {"container-start"},
    "too-many-files": {"container-start"},
    "import-abi": {"library-older-first"},
}
"""Logs that end early."""
FALLBACKS = {"unclear", *(name for name, known in KNOWN.findings.items() if known.fallback)}


def read_within(seconds: float, log: str) -> Examination:
    """Return the diagnosis of a log, which must take at most the given CPU time."""
    before = time.process_time()
    seen = read(log)
    answer = report(seen, DoctorRequest(), what="the log", notes=())
    assert time.process_time() - before < seconds
    assert len(answer.text) + sum(len("".join(row)) for one in answer.tables for row in one.rows) < 10_000
    return seen


FRAMES = "Traceback (most recent call last)\n" + '  File "x", line 1\n'
DENSE = {
    "words of a finding along a line": ("FATAL:   " * 33_000, "parts of log0: "),
    "one word along a line": ("ErrImagePull" * 25_000, "parts of log0: "),
    "tracebacks without an end": (FRAMES * 6_000, "parts of log0: "),
    "such of all ranks": ("".join(f"[rank{rank}]: {FRAMES}" for rank in range(5_000)), "parts of log0: "),
    "lists of ranks": ("srun: error: n1: tasks 0-199999: Killed\n" * 7_500, "more lines of ended: only the first 10"),
    "every second node": (
        "".join(f"n{2 * node}:1:1 [0] NCCL WARN Odd\n" for node in range(21_000)),
        "more lines of failed: ",
    ),
}


def test_log_of_many_short_runs_is_fast_and_numbered_correctly() -> None:
    log = "pyxis: \nUnable to handle \npyxis: 00\n"
    runs = 100_000 // len(log)

    seen = read_within(4, log * runs)  # 0.7 s without load; 4 s and more if each run searches the whole log

    assert [finding.place for finding in seen.findings] == [f"log0:{3 * runs}"]


QUADRATIC = {
    "tracebacks without an unindented line": ("[x] Traceback (most recent call last):\n", 2_000_000),
    "errors that the program caught": ("cxil_map: write error, will be ignored, retrying\n", 2_000_000),
    "first lines that are repeated": ("reading config of the app\nof fit.py\nline a\nline b\n", 20_000_000),
    "first lines without a space": ("reading two files " + "x" * 30_000 + ".\n", 2_000_000),
    "runs that each begin with NUL bytes": ("\0" * 9, 2_000_000),
    "one chain of exceptions": (
        "Traceback (most recent call last):\nValueError: x\n\n"
        "During handling of the above exception, another exception occurred:\n\n",
        200_000,
    ),
}


@pytest.mark.parametrize("case", QUADRATIC)
def test_time_grows_with_the_size_of_a_log(case: str) -> None:
    unit, size = QUADRATIC[case]

    read_within(4, unit * (size // len(unit)))  # 2 s and less without load; more if each match searches the whole block


@pytest.mark.parametrize("case", DENSE)
def test_dense_log_is_fast_and_skipped_parts_are_listed(case: str) -> None:
    log, said = DENSE[case]

    seen = read_within(4, log)  # a few tenths without load; 6 to 60 where each place was looked at

    assert [line for line in seen.unseen if line.startswith(said)], seen.unseen


LINES = [line for known in (*KNOWN.findings.values(), *KNOWN.facts.values()) for line in known.log]
UNITS = st.sampled_from(LINES).flatmap(
    lambda line: st.one_of(st.just(line.text), st.from_regex(line.match.text) if line.match else st.just(line.text))
)


@given(
    st.lists(UNITS, min_size=1, max_size=4), st.sampled_from(["", " ", "\r", "\n", "\n[rank{0}]: ", "\nn{0}:1:1 [0] "])
)
@settings(max_examples=15)
def test_log_of_known_lines_is_fast(units: list[str], between: str) -> None:
    unit = "".join(f"{one}{between}" for one in units)

    read_within(2, "".join(unit.replace("{0}", str(i)) for i in range(100_000 // len(unit) + 1)))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log() -> None:
    lines = b"".join(WATCHDOG.format(rank).encode() for rank in range(2)) + b"step 1 loss 0.1\n" * 20_000

    class Endless(io.RawIOBase):
        """A stream with the given number of bytes, generated while it is read."""

        left = 200_000_000

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return (lines * (size // len(lines) + 1))[:size]

    tracemalloc.start()
    read_logs([("endless", Endless())], SCANNER)  # type: ignore[list-item]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 60_000_000


def test_logs_of_several_nodes_are_read_as_one_job(cli: Cli, write: Write) -> None:
    for name in ("n1", "n2"):
        write(f"{name}.out", f"{name}:9:9 [0] NCCL INFO Using network Socket\n")

    answer = cli("doctor", "--log", "n1.out", "n2.out", "--json")

    assert answer.code == 1
    (found,) = json.loads(answer.stdout)["findings"]
    assert (found["id"], found["nodes"], found["place"]) == ("nccl-tcp", "n[1-2]", "n1.out:1")


def test_report_has_one_line_per_finding_worst_first(cli: Cli, write: Write) -> None:
    write("job.out", "\n".join(FIRES[name][0] for name in ("image-older", "nccl-tcp", "cxil-map")))

    answer = cli("doctor", "--log", "job.out")

    assert answer.code == 1
    rows = [line.split() for line in answer.stdout.partition("severity")[2].splitlines()[1:]]
    expected = [
        ["broken", "cxil-map"],
        ["fix", "Disable"],
        ["paste", "export"],
        ["slow", "nccl-tcp"],
        ["risk", "image-older"],
    ]
    assert [row[:2] for row in rows] == expected


def test_long_report_fits_a_screen(cli: Cli, write: Write) -> None:
    names = [f"{name}.out" for name in FIRES]
    for name, logs in FIRES.items():
        write(f"{name}.out", "\n".join(logs))

    answer = cli("doctor", *names)

    assert len((answer.stdout + answer.stderr).splitlines()) <= 30
    assert "more findings; --verbose prints all" in answer.stderr
    assert "[omp-default]" in cli("doctor", *names, "--verbose").stdout
    fix = cli("doctor", *names, "--fix").stdout
    assert "export FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD='0'" in fix
    subprocess.run(["bash", "-n", "-c", fix], check=True)


def test_fix_without_findings_prints_no_problems(cli: Cli, write: Write) -> None:
    write("job.out", STEPS)

    answer = cli("doctor", "--log", "job.out", "--fix")

    assert (answer.stdout.strip(), "no problems found in the log" in answer.stderr) == ("", True)


def test_fix_commands_contain_the_given_system(cli: Cli, write: Write) -> None:
    write("job.out", "n1:1:1 [0] NCCL INFO Using network Socket\nn2:1:1 [0] NCCL INFO Using network Socket\n")

    fix = cli("doctor", "--log", "job.out", "--system", "clariden", "--fix").stdout

    assert "uenvtool activate --system clariden > activate.sh" in fix


def test_exit_code_is_0_for_notes(cli: Cli, write: Write) -> None:
    write("job.out", FIRES["omp-default"][0])

    assert cli("doctor", "job.out").code == 0


def test_healthy_log_shows_facts_and_no_problems(cli: Cli, write: Write) -> None:
    log = HEALTHY["slingshot-four-nodes"] + "training finished\n"
    write("job.out", log)
    lines = len(log.splitlines())

    fresh = cli("doctor", "--log", "job.out")
    os.utime("job.out", (0, 0))
    answer = cli("doctor", "--log", "job.out")

    assert answer.code == 0
    assert "NCCL's network: AWS Libfabric\nGPUDirect RDMA: yes\n" in answer.stdout
    assert answer.stdout.endswith(f"no problems found in the log ({lines} lines)\n")
    assert answer.stderr == ""
    assert " s ago, so the job may still be running)\n" in fresh.stdout


def test_log_with_only_warnings_quotes_each_kind_once(cli: Cli, write: Write) -> None:
    expandable = "[rank{}]:[W1121 10:00:0{}.4 Alloc.cpp:1500] expandable_segments: memory mapping failed with OOM\n"
    heartbeat = "[2026-11-21 10:00:00,123] rendezvous: [WARNING] The node 'n1_1_0' has failed to send a heartbeat\n"
    missing = 'n1:5:6 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to a hang!\n'
    python = "x.py:3: FutureWarning: y\n"
    write("job.out", expandable.format(0, 1) + "a\n" + expandable.format(3, 2) + heartbeat + python + missing)

    answer = cli("doctor", "job.out")

    assert (answer.code, answer.stdout.startswith("warnings but no failure found in the log (6 lines")) == (0, True)
    assert [line.split()[0] for line in answer.stdout.splitlines()[3:]] == ["1", "4", "6"]


def test_tokens_in_a_log_are_hidden(cli: Cli, write: Write) -> None:
    secret = "Zq7xK9mP2vR8tB4nW6"
    said = f"hf_{secret} https://me:{secret}@host/x Bearer {secret} password={secret}"
    network = f"n1:5:6 [0] NCCL INFO NCCL_NET set by environment to token={secret}\n"
    log = f"cxil_map: write error {said}\nValueError: {said}\nRuntimeError: {said} is refused\n"
    write("job.out", network + OLD_TORCH.format(size=4.0, busbw=91.3) + log)

    for options in ([], ["--json"], ["--verbose"], ["--fix"], ["-o", "busbw.svg"]):
        answer = cli("doctor", "--log", "job.out", *options)
        assert answer.code == 1
        assert secret not in answer.stdout + answer.stderr
    assert secret not in Path("busbw.svg").read_text()


@pytest.mark.parametrize("before", [0, 1, 59, 60, 140, 158, 160, 300, 600, 1_400, 1_498, 1_500, 1_600])
def test_secrets_are_removed_before_a_line_is_shortened(before: int) -> None:
    secret = "Zq7xK9mP2vR8tB4nW6"
    for form in ("HF_TOKEN={}", "--token {}", "https://u:{}@h", "Authorization: Bearer {}"):
        said = form.format(secret)
        (found,) = read(f"{'x ' * 900}{said} {'y ' * (before // 2)}ValueError: {said} is wrong\n").findings

        assert secret not in f"{found.text} {found.detail}"


def test_line_longer_than_a_block_shows_no_secret() -> None:
    secret = "Zq7xK9mP2vR8tB4nW6"
    for behind in (0, 13, 20, 31):
        found = read(f"token={secret} curl -u a:{secret} is refused " * 600 + "y" * behind)

        shown = [one.detail for one in found.findings]
        assert shown
        assert not any(secret[at : at + 4] in text for text in shown for at in range(len(secret) - 3)), shown


@pytest.mark.parametrize("name", ["watchdog-timeout", "nccl-tcp"])
def test_explain_knows_a_finding(cli: Cli, name: str) -> None:
    answer = cli("explain", name)

    assert answer.code == 0
    assert answer.stdout.startswith(f"{name}  (uenvtool doctor)\n")
    assert KNOWN.findings[name].source in answer.stdout


def test_user_finding_is_one_entry_in_a_file(cli: Cli, write: Write) -> None:
    write(
        "findings/mine.yaml",
        "description: mine\nfindings:\n  odd-card:\n    title: odd\n    severity: risk\n"
        "    what: the card is odd\n    why: it is\n"
        "    fix: turn it\n    source: me\n    log: [{text: card is odd, match: 'card is odd on (?P<node>\\w+)'}]\n",
    )
    write("job.out", "the card is odd on nid009\n")

    assert cli("validate", "findings/mine.yaml").code == 0
    assert "odd-card  the card is odd, on nid009, job.out:1" in cli("doctor", "--log", "job.out").stdout


NO_DEVICE = "n1:9:9 [0] NCCL INFO NET/IB : No device found.\n"
IB_WANTED = "n1:9:9 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.\n"
IPOIB = "n1:9:9 [0] NCCL INFO NET/Socket : Using [0]ib0:10.149.0.32<0>\n"
ENGINE = "INFO 05-29 23:32:19 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m'\n"
VERDICTS = [
    # a rank that waits follows from what failed before, and not from what failed after; so does a rank that was left
    ([FIRES["watchdog-timeout"][0], FIRES["exception"][0]], "watchdog-timeout"),
    ([FIRES["exception"][0], FIRES["watchdog-timeout"][0]], "exception"),
    ([FIRES["nccl-remote-died"][0]], "nccl-remote-died"),
    ([FIRES["nccl-remote-died"][0] + "\n" + FIRES["out-of-memory-host"][0]], "out-of-memory-host"),
    # of a job whose ranks waited until its time limit, the rank that failed is named too
    ([TRACEBACK.format(3) + LIMIT], "exception time-limit"),
    ([TRACEBACK.format(3) + STEPS + LIMIT], "time-limit"),
    ([LIMIT + TRACEBACK.format(3)], "time-limit"),
    # a shell, a hook and a helper at the end are not what failed; nor is what nobody needs any more
    (["sh: [12: 1 (255)] tcsetattr: Input/output error\n" + TRACEBACK.format(3)], "exception"),
    (["/etc/enroot/hooks.d/10.sh: line 40: 12 Segmentation fault      pwck -s\n" + TRACEBACK.format(3)], "exception"),
    (
        [TRACEBACK.format(3) + "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"],
        "exception",
    ),
    (
        [
            "wandb: ERROR API: socket.gaierror: [Errno -2] Name or service not known\nwandb: entering retry loop.\n"
            + TRACEBACK.format(3)
        ],
        "exception",
    ),
    # what failed in a run that goes on is a note
    *(([sign + STEPS], "went-on") for sign in SIGNS),
    # what breaks a run is one where a long run follows that ends well
    (["cxil_map: write error\n" + STEPS * 9], "went-on"),
    (["cxil_map: write error\n" + STEPS], "cxil-map"),
    (["cxil_map: write error\nINFO: Application startup complete.\n"], "went-on"),
    ([SIGNS[1] + "  1024   256   float   sum   -1   23.2   0.04   0.08   0   23.1   0.04   0.08   0\n" * 9], "went-on"),
    ([FIRES["nccl-start-stall"][0] + STEPS], ""),
    (["srun: error: n1: task 0: Exited with exit code 1\n" + STEPS], "ended"),
    # the end of a log that speaks of a failure
    (["epoch 1\nThe widget was unable to start\n"], "failed"),
    (["epoch 1\nOSERROR: strange\ndone\n"], "failed"),
    (["ud_ep.c:278 Fatal: UD endpoint to <no debug data>: unhandled timeout error\n"], "failed"),
    (["epoch 1\nodd_init failed, exceeded error retry count (35)\n"], "failed"),
    # a crash, a lost server or disk at the end follows from what the program said before, and does not where it went on
    ([TRACEBACK.format(3) + FIRES["segfault"][0]], "exception"),
    ([TRACEBACK.format(3) + STEPS * 9 + FIRES["segfault"][0]], "segfault"),
    ([TRACEBACK.format(3) + STEPS * 9 + FIRES["cancelled"][0]], "cancelled"),
    ([FIRES["segfault"][0] + TRACEBACK.format(3)], "segfault"),
    ([TRACEBACK.format(3) + next(log for log in FIRES["filesystem-failed"] if "Traceback" not in log)], "exception"),
    # without its module or environment a program meets another torch, or none
    (["Could not find conda environment: x\n" + FIRES["no-kernel-image"][0]], "module-unknown"),
    (
        ["activate: line 3: Could not find conda environment: x\ny.sh: line 9: activate: No such file or directory\n"],
        "module-unknown",
    ),
    (
        ["ERROR: No matching distribution found for torch==9\nModuleNotFoundError: No module named 'torch'\n"],
        "install-failed",
    ),
    # a warning is no failure where steps follow
    (["[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98)\n" + STEPS], "went-on"),
    (["epoch 1\nHSA exception: misaligned parameters\n"], "unclear"),
    (["x.sh: line 9:  4711 User defined signal 1   srun python train.py\n"], "ended"),
    (["application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n"], "ended"),
    (["epoch 1\nOSERROR: strange\n" + "odd words\n" * 9], "unclear"),
    (["epoch 1\nOSERROR: strange\n" + "done\n" * 9], ""),
    (["cxil_map: write error\nsuccessfully sent\n"], ""),
    (["Cannot compute the accuracy: single-run mode.\na"], "unclear"),
    # what a shell passes over
    (["x.sh: line 9: module: command not found\n" + "a\n" * 60], "went-on"),
    ([ABSENT + "a\n" * 60], "went-on"),
    ([ABSENT + "a\n" * 9], "program-missing"),
    ([ABSENT + "a\n" * 60 + "the widget crashed\n"], "program-missing"),
    # code that is shown, and words of numerics
    (["epoch 1\ntest error: 0.12, 0 errors\n"], ""),
    (["mpirun (PID 5) terminated with exit code 0\n"], ""),
    (["WARNING: could not find x, ignoring\nepoch 1 | error=0.5\n"], ""),
    (["Solver terminated\nNumber of failed function evaluations: 0.\n"], ""),
    (['            raise ValueError("num_heads must be divisible by num_kv_heads")\na\n'], ""),
    (["Relative norm of error 0.000279251 iterations 13\n"], ""),
    (["error test failures =   187\n"], ""),
    (["max error: 2.5e-15, relative error\n"], ""),
    # InfiniBand that NCCL does not use, and that it does not need or that another plugin drives
    ([NO_DEVICE + IB_WANTED], "nccl-ib-not-found"),
    ([NO_DEVICE], ""),
    ([NO_DEVICE + IB_WANTED + "n1:9:9 [0] NCCL INFO NET/OFI Selected Provider is cxi\n"], ""),
    ([NO_DEVICE + IB_WANTED + "n1:9:9 [0] NCCL INFO comm 0x5 rank 0 nRanks 2 nNodes 1\n"], ""),
    ([IPOIB], "nccl-ipoib"),
    ([IPOIB.replace("ib0", "eth0")], ""),
    (["n1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.149.0.32<0>\n"], ""),
    (["n1:9:9 [0] NCCL INFO Bootstrap : Using ib0:10.149.0.32<0>\n"], ""),
    ([IPOIB + "n1:9:9 [0] NCCL INFO comm 0x5 rank 0 nRanks 2 nNodes 1\n"], ""),
    # servers of the same model, one per task or on purpose
    ([ENGINE + ENGINE], "vllm-per-task"),
    ([ENGINE + "a\n" * 9 + ENGINE], ""),
    (["(EngineCore_DP0 pid=1) " + ENGINE + "(EngineCore_DP1 pid=2) " + ENGINE], ""),
    # Ray that did not start, because memory was full or for another reason
    ([FIRES["ray-node-start"][0] + FIRES["out-of-memory-host"][0]], "out-of-memory-host"),
    (["ray.init() waits 30 seconds for node to startup\n"], ""),
    # a GPU that cannot be used, with its message and without
    ([FIRES["set-device"][0] + "RuntimeError: CUDA error: invalid device ordinal\n"], "gpu-not-visible"),
]


@pytest.mark.parametrize(("logs", "names"), VERDICTS)
def test_findings_of_logs(logs: list[str], names: str) -> None:
    assert ids(read(*logs)) == set(names.split())


FIXES = [
    # lines that have their own fix, and words of it; a log with another line has the general fix
    ("nccl-topology", "graph/topo.h:230 NCCL WARN Could not find NET with id 0", "2.27.3"),
    ("nccl-topology", "graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found", "/sys"),
    ("slurm-refused", "Memory specification can not be satisfied", "memory"),
    ("ssh-refused", "daemon has unexpectedly failed", "srun --mpi=pmix"),
    ("ssh-refused", "ssh: Could not resolve hostname", "host file"),
    ("ssh-refused", "Host key verification failed", "without a prompt"),
    ("container-start", "Command not found: nvidia-container-cli", "libnvidia-container-tools"),
    ("step-launch", "Task launch for StepId=34.0 failed on node n4", "--exclude=NODE"),
    ("ray-node-start", "AF_UNIX path length", "short absolute directory"),
    ("ray-node-start", "Did not find socket name", "sbatch"),
]


@pytest.mark.parametrize(("name", "line", "words"), FIXES)
def test_fix_belongs_to_the_line(name: str, line: str, words: str) -> None:
    for log in [log for log in FIRES[name] if line in log]:
        assert [words in found.known.fix for found in read(log).findings] == [True]
    assert any(line in log for log in FIRES[name])


@pytest.mark.parametrize("sign", SIGNS)
def test_failure_at_the_end_of_one_log_is_not_a_note(sign: str) -> None:
    assert {found.known.severity for found in read(STEPS + sign).findings} == {"broken"}
    assert {found.known.severity for found in read(sign + STEPS, STEPS + sign).findings} == {"broken"}
    assert "went-on" not in ids(read(sign + STEPS + "n1 crashed\n"))


@pytest.mark.parametrize("name", ["killed", "cancelled", "nccl-remote-died"])
def test_end_of_a_process_is_not_a_note(name: str) -> None:
    assert name in ids(read(FIRES[name][0] + STEPS * 9))


def test_log_with_a_possible_failure_is_not_healthy(cli: Cli, write: Write) -> None:
    write("job.out", "cxil_map: write error\nsuccessfully sent\n")

    answer = cli("doctor", "--log", "job.out")

    assert (answer.code, "no problems found" in answer.stdout) == (0, False)
    assert "1     cxil_map: write error\n" in answer.stdout


DETAILS = [
    # the rank that the others wait for, up to PyTorch 2.5 and from 2.6 on
    *(
        (
            "".join(WATCHDOG.format(rank) + enqueued.format(rank, 808 if rank == 2 else 811) for rank in range(4)),
            "ALLREDUCE, rank 2 is behind",
        )
        for enqueued in (ENQUEUED, ENQUEUED_2_6)
    ),
    (
        "nid001:9:9 [0] NCCL INFO comm 0x5 rank 1 nranks 4 cudaDev 0\n" + "".join(map(WATCHDOG.format, (0, 1, 3))),
        "ALLREDUCE, rank 2 of 4 did not wait there",
    ),
    # who failed first, and with what
    (
        "srun: error: nid7: task 3: Exited with exit code 1",
        "rank 3 on nid7 failed first, with: nid7: task 3: Exited",
    ),
    ("*** STEP 5.0 ON n1 CANCELLED AT 2026-11-22 ***", "*** STEP"),
    ("n1:5:6 [0] x.cc:1 NCCL WARN Odd thing", "the run on n1 failed first, with: NCCL WARN Odd thing"),
    ("RuntimeError: CUDA error: odd thing", "RuntimeError: CUDA error: odd thing"),
    ("run.sh: line 7: srum: command not found", "srum: command not found"),
    (
        "Abort(1091) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n"
        "MPIR_Init_thread(171).......: \n"
        "create_endpoint(1382).......: OFI EP enable failed (ofi_init.c:1382:create_endpoint:Address in use)",
        "create_endpoint(1382).......: OFI EP enable failed",
    ),
    (
        "Root Cause (first observed failure):\n[0]:\n  time : 2026-11-22_10:00:00\n  host      : n4\n"
        "  rank      : 6 (local_rank: 2)\n  exitcode  : 1 (pid: 226263)\n",
        "rank 6 on n4 failed first, with: exitcode : 1",
    ),
    # the line that says most, without the label in front of it
    ("[rank3]: cxil_map: write error\n", "cxil_map: write error"),
    (
        "/var/spool/slurmd/job5/slurm_script: line 76: /scratch/x.log: Permission denied",
        "/scratch/x.log: Permission denied",
    ),
    (
        "NCCL error in: ProcessGroupNCCL.cpp:1275, internal error\nncclInternalError: Internal check failed.\n"
        "Last error:\nFailed to find reverse path from remNode 0/c1000 nlinks 4 to node 0/d9000",
        "Failed to find reverse path from remNode",
    ),
    ("oddBLAS error: Cannot read /opt/x.dat: Illegal seek\nAborted (core dumped)\n", "oddBLAS error: Cannot"),
    ("Queue ... Aborting with error :\nODD_OUT: failed to allocate what it needs\n*** abort ***\n", "ODD_OUT: failed"),
    (
        "oddrun: fatal: A and B are mutually exclusive.\nsrun: error: n1: task 0: Exited with exit code 1\n",
        "oddrun: fatal",
    ),
]


@pytest.mark.parametrize(("log", "detail"), DETAILS)
def test_unknown_failure_shows_its_decisive_line_and_rank(log: str, detail: str) -> None:
    (found,) = read(log + "\n").findings

    assert found.detail[: len(detail)] == detail


def test_detail_contained_in_another_is_not_repeated() -> None:
    log = next(log for log in FIRES["out-of-memory-gpu"] if "total capacity of 94.50" in log)

    assert read(log).findings[0].detail.count("Tried to allocate") == 1


CRASH = (
    "step 1\nError: CUBLAS error at Cuda.cpp:311: error code = 1, device index: 7\n"
    "[n1:31808] Signal: Segmentation fault (11)\n[n1:31808] Failing at address: 0x4002da000000\n"
    "[n1:31808] [ 1] /lib64/libc.so.6(raise+0x10)[0x400029a97bd4]\n"
    "[n1:31808] [ 2] /x/libmpi.so.40(NBC_Progress+0x164)[0x400029a97bd4]\n"
    "[n1:31808] [ 3] /x/libmpi.so.40(MPI_Wait+0x4)[0x400029a97bd4]\n[n1:31808] *** End of error message ***\n"
)
STRIPPED = (
    "[n1:2498 :0:2599] Caught signal 7 (Bus error: nonexistent physical address)\n"
    " 0 0x0000000000014420 __funlockfile()  ???:0\n"
    " 1 0x000000000018bb41 __nss_database_lookup()  ???:0\n 2 0x000000000006929c ncclGroupEnd()  ???:0\n"
)
"""UCX prints the nearest known symbol for a function of a C library without symbols."""
PORT = (
    "ConnectionError: Tried to launch distributed communication on port `11986`, but another process is utilizing it. "
)
OLD_LIBRARY = "python3: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /x/libtirpc.so.3)"
FAR = "a\n" * 9 + "the widget is missing\n[n1:9] Signal: Segmentation fault (11)\n" + "step\n" * 40_000
QUOTES = {
    "what else the log says, and where a program crashed": (
        CRASH,
        [
            "Error: CUBLAS error at Cuda.cpp:311: error code = 1, device index: 7",
            "[n1:31808] Failing at address: 0x4002da000000",
            "[n1:31808] [ 2] /x/libmpi.so.40(NBC_Progress+0x164)[0x400029a97bd4]",
        ],
    ),
    "not what a C library without symbols seems to be in": (STRIPPED, [" 2 0x000000000006929c ncclGroupEnd() ???:0"]),
    "the whole line where the finding has a part": (OLD_LIBRARY + "\n", [OLD_LIBRARY]),
    "a line that the finding has but for its end": (
        f"[rank3]: torch.OutOfMemoryError: CUDA out of memory. {'Of these, some more is free. ' * 20}\n",
        [],
    ),
    "what stands around a failure far from the end": (FAR, ["the widget is missing"]),
    "the reason below its announcement": (
        "terminate called after throwing an instance of 'X'\nLast error:\nodd words of a library\n",
        ["odd words of a library"],
    ),
    "what was printed last before a launcher speaks": (
        "epoch 1 loss 0.3\nsudo: a password is required\nsrun: error: n1: task 0: Exited with exit code 1\n",
        ["sudo: a password is required", "srun: error: n1: task 0: Exited with exit code 1"],
    ),
    "what failed last, where much failed before": (
        "".join(f"Odd{name}Error: the widget is gone\n" for name in "ABCDEFG") + "n1 crashed\n",
        [f"Odd{name}Error: the widget is gone" for name in "BCDG"],
    ),
    "a run that went on": (CRASH.partition("[n1")[0] + "epoch 1, loss 0.3\n" * 60, []),
}


def quoted(log: str) -> list[str]:
    return [text for _, text in read(log).quotes]


@pytest.mark.parametrize("case", QUOTES)
def test_other_failure_lines_are_quoted_below_findings(case: str) -> None:
    log, quotes = QUOTES[case]

    assert quoted(log) == [quote.strip() for quote in quotes]


def test_quote_has_its_line_number() -> None:
    assert [read(log).quotes[0][0] for log in (CRASH, FAR)] == ["log0:2", "log0:10"]


def test_long_line_is_quoted_once() -> None:
    joined = "The above exception was the direct cause of the following exception:\n\n"

    assert len(quoted(f"{joined}{PORT}{'Please specify a different port. ' * 9}\n")) == 1


def test_equal_lines_of_ranks_are_quoted_once_without_secrets() -> None:
    ranks = "".join(f"[rank{rank}] lost the widget 0x{rank:x} of hf_{'a' * 34}\n" for rank in range(99))
    kinds = "".join(f"widget {name} is missing\n" for name in "abcdefg")

    shown = quoted("CUDA error: out of memory\n" + ranks + kinds)

    assert len(shown) == 4
    assert sum("lost the widget" in line for line in shown) == 1
    assert not any("aaaa" in line for line in shown)


def test_warnings_of_waiting_ranks_are_broken() -> None:
    assert [found.known.severity for found in read(FIRES["master-silent"][0]).findings] == ["broken"]
