"""Diagnosis of whole files: several runs, caught errors, stops from outside, logs without an end, and build logs."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.doctor.samples import FIRES
from tests.doctor.test_log import KNOWN, SCANNER, STEPS, TRACEBACK, ids, read
from uenvtool.doctor.log.scan import read_logs
from uenvtool.doctor.log.verdict import examined, with_end

FIELD = Path(__file__).parent / "field"
EXPECTED = {
    # file: findings in order, a text that the report contains, and a text that it must not contain
    "01-two-runs": (
        ["cancelled", "earlier-runs"],
        "LookupError: no data set called cups",
        "the run failed first, with: Jo",
    ),
    "02-second-try-well": (["went-on"], "Address already in use", "broken"),
    "03-caught-by-a-library": (["went-on"], "AttributeError", "the run failed first"),
    "04-ignored-import": (["exception"], "cannot be larger than 8 dimensions", "cannot import name"),
    "06-server-stopped": (["cancelled"], "signal=SIGTERM", "no known cause"),
    "05-pickle-of-a-pipe": (["worker-orphaned"], "the main process", "checkpoint"),
    "07-launcher-was-killed": (["cancelled"], "Terminated", "the rank that is behind"),
    "08-placement-group": (["vllm-stall"], "VLLM_HOST_IP environment variable", "--enforce-eager"),
    "11-options-in-each-start": (["options-refused", "earlier-runs"], "Truthy value", "a failure without"),
    "12-script-does-not-compile": (
        ["exception", "earlier-runs"],
        "SyntaxError: invalid syntax",
        "the run failed first",
    ),
    "13-first-line-again": (
        ["exception", "earlier-runs"],
        "division by zero at tune.py:21 in fit",
        "no other cause: Key",
    ),
    "14-bar-in-one-line": (["failed"], "14-bar-in-one-line.log:4", ".log:11"),
    "15-exits-with-a-reason": (["failed"], "is not a 4D image", "no problems found"),
    "16-ranks-do-not-connect": (["no-end"], "last: NCCL version", "no failure found"),
    "17-error-cases-of-an-evaluation": ([], "no problems found", "unknown failure"),
    "18-server-with-invalid-options": (["exception"], "(512) is smaller than max_model_len", "no problems found"),
    "19-directory-as-file": (["file-missing"], "Pass the path of a file", "Mount its directory"),
    "20-text-that-a-model-wrote": (["time-limit"], "DUE TO TIME LIMIT", "the singer"),
    "21-tool-of-a-script": (["ended"], "returned non-zero exit status 1", "no failure found"),
    "22-image-without-a-path": (["container-path"], "./image.sqsh", "--container-workdir"),
    "23-advice-of-a-warning": (["import-abi"], "amp_C", "custom_fwd(args..., device"),
    "l04-device-busy": (["gpu-busy"], "SLURM_LOCALID", "no known cause"),
    "l12-ray-placement": (["vllm-stall", "time-limit"], "--cpus-per-task", "Request more time"),
    "l14-tp-larger": (["parallel-sizes"], "--nnodes", "the code at that place"),
    "l15-heartbeat": (["rendezvous-lost", "cancelled"], "the node that hosts the rendezvous", "sacct"),
    "l16-usersite": (["versions-mismatch"], "PYTHONNOUSERSITE=1", "uenvtool venv"),
    "l19-gpu-job-on-cpu": (["ran-on-cpu", "time-limit"], "running on CPU", "Request more time"),
}
JOB = "Job ID: {}\nloading the data\n"
CANCELLED = "slurmstepd: error: *** JOB {} ON n1 CANCELLED AT 2026-02-11T03:12:40 ***\n"
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-11T03:12:40 DUE TO TIME LIMIT ***\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
HYDRA = "[2026-03-01 {:02}:00:00,123][src.tasks][INFO] - {}\n"
HYDRA_TRAINS = HYDRA.format(10, "Instantiating the model") + HYDRA.format(10, "Starting training!")
ERROR = TRACEBACK.replace("[rank{0}]: ", "").replace("{0}", "3")
START = "Fitting the weather model on node7\nreading the stations\n"
FITTED = STEPS + "training finished\n"
SWEEP = "+ python fit.py --rate 0.{}\nreading the stations of all regions\n"
HYDRA_RUN = "".join(
    "[2026-03-01 {0:02}:00:00,123][src.tasks][INFO] - " + text
    for text in ("Checking tags\n", "Instantiating the data\n", "Starting training!\n", "Starting testing!\n")
)
HYDRA_END = "[2026-03-01 {0:02}:30:00,123][src.tasks][INFO] - Closing loggers...\n"
WELL = "".join((HYDRA_RUN + HYDRA_END).format(hour) for hour in (9, 10))
BAD = HYDRA_RUN.format(11) + ERROR + HYDRA_END.format(11)
CONDOR = (
    "000 ({0}.000.000) 2026-03-01 08:00:00 Job submitted from host: <10.0.0.1:9618>\n...\n"
    "005 ({0}.000.000) 2026-03-01 08:10:00 Job terminated.\n\t(1) Normal termination (return value {1:d})\n...\n"
)


def found(log: str) -> list[str]:
    return [finding.known.id for finding in read(log).findings]


def found_at_end(log: str) -> list[str]:
    """Return the findings of a log that no process writes any more."""
    seen = read_logs([("log0", io.BytesIO(log.encode()))], SCANNER)
    return [finding.known.id for finding in with_end(examined(seen, KNOWN), seen, KNOWN).findings]


@pytest.mark.parametrize("name", EXPECTED)
def test_field_case_has_its_expected_answer(cli: Cli, tmp_path: Path, name: str) -> None:
    names, text, absent = EXPECTED[name]
    log = tmp_path / f"{name}.log"
    shutil.copy(FIELD / log.name, log)
    os.utime(log, (0, 0))

    answer = cli("doctor", "--json", str(log))
    shown = cli("doctor", str(log)).stdout

    assert [finding["id"] for finding in json.loads(answer.stdout)["findings"]] == names
    assert text in shown
    assert absent not in shown
    assert answer.code == (bool(names) and "went-on" not in names)


RUNS = {
    "the job ID changes": (JOB.format(101) + ERROR + JOB.format(102) + STEPS + "training done\n", "earlier-runs"),
    "the file was truncated": (ERROR + "\0" * 40 + "\n" + STEPS + "training done\n", "earlier-runs"),
    "the launcher starts again": (
        ERROR + "| Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n" + STEPS,
        "omp-default earlier-runs",
    ),
    "a known cause": (
        JOB.format(101) + OOM + JOB.format(102) + STEPS + CANCELLED.format(102),
        "cancelled earlier-runs",
    ),
    "two cancelled jobs": (CANCELLED.format(101) + LIMIT.replace("JOB 7", "JOB 102"), "time-limit earlier-runs"),
    "a requeued job": (JOB.format(101) + STEPS + CANCELLED.format(101) + JOB.format(101) + STEPS, "earlier-runs"),
    "the same job ID": (JOB.format(101) + ERROR + JOB.format(101) + "freeing\n", "exception"),
    "a check of the GPUs after the failure": (
        ERROR + "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |\n|  0  GH200 | 0% |\n",
        "exception",
    ),
    "the first line again at another time": (
        "[2026-01-12 09:00:01,250][app][INFO] - reading config of app\n"
        + ERROR
        + "[2026-01-12 09:41:07,912][app][INFO] - reading config of app\n"
        + STEPS
        + "training done\n",
        "earlier-runs",
    ),
    "a run of Hydra without progress": (
        HYDRA.format(9, "Instantiating the data") + ERROR + HYDRA.format(10, "Instantiating the data") + HYDRA_TRAINS,
        "no-end earlier-runs",
    ),
    "a run of Hydra that ends": (
        HYDRA.format(9, "Instantiating the data")
        + ERROR
        + HYDRA.format(10, "Instantiating the data")
        + HYDRA.format(11, "Best checkpoint saved to a.ckpt"),
        "earlier-runs",
    ),
    "only the first line again": (
        HYDRA.format(9, "Instantiating the data") + ERROR + HYDRA.format(10, "Instantiating the data"),
        "exception",
    ),
    "a banner in capitals": (
        "=== Job 555 ===\n" + OOM + "=== Job 556 ===\n" + STEPS + "training done\n",
        "earlier-runs",
    ),
    "the first line inside another line": (
        "2026-01-12 09:00:01 reading config of app\n"
        + ERROR
        + "2026-01-12 09:00:02 not reading config of app\nfreeing\n",
        "exception",
    ),
    "runs of which only one failed": (WELL + BAD + HYDRA_RUN.format(12) + HYDRA_END.format(12), "earlier-runs"),
    "the last of several runs": (WELL + BAD, "exception"),
    "commands with other options": (
        "".join(SWEEP.format(rate) + end for rate, end in ((1, FITTED), (2, ERROR), (3, FITTED))),
        "earlier-runs",
    ),
    "a last run without known texts": (START + ERROR + START + "wind: 4 m/s\n" * 9 + FITTED, "earlier-runs"),
    "ranks that start one after the other": (
        "".join(HYDRA_RUN.format(9).replace(":00:00", f":00:{second}") for second in (11, 15, 19)) + ERROR,
        "exception",
    ),
    "ranks that start again": ((HYDRA_RUN.format(9) * 3 + ERROR) + HYDRA_RUN.format(10) * 3 + STEPS, "earlier-runs"),
    "a date before the first line": (
        f"Mon Mar  2 10:00:01 CET 2026\n{START}{ERROR}Tue Mar 10 09:12:44 CET 2026\n{START}{FITTED}",
        "earlier-runs",
    ),
    "jobs of HTCondor": (CONDOR.format(7, 3) + CONDOR.format(8, 0), "earlier-runs"),
    "the last job of HTCondor failed": (CONDOR.format(7, 0) + CONDOR.format(8, 3), "ended"),
    "all runs failed": (JOB.format(101) + OOM + JOB.format(102) + ERROR, "exception earlier-runs"),
    "a known cause, 40 steps and an end": (OOM + STEPS * 5 + CANCELLED.format(102), "cancelled"),
    "a known cause, 60 long steps and an end": (
        OOM + "".join(f"epoch 1 | loss: 0.{i} {'x' * 2_000}\n" for i in range(60)) + CANCELLED.format(102),
        "cancelled",
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_last_run_of_a_log_is_judged(case: str) -> None:
    log, names = RUNS[case]

    assert (found_at_end(log) if "no-end" in names else found(log)) == names.split()


def test_earlier_runs_of_several_logs_are_named_in_one_line() -> None:
    first = JOB.format(101) + ERROR + JOB.format(102) + OOM + JOB.format(103) + STEPS

    (note,) = [finding for finding in read(first, STEPS).findings if finding.known.id == "earlier-runs"]

    assert note.detail.startswith("2 of 2, the last one with out-of-memory-gpu: ")


@pytest.mark.parametrize(
    ("log", "counts"),
    [
        (WELL + BAD + HYDRA_RUN.format(12) + HYDRA_END.format(12), "1 of 3"),
        ("".join(SWEEP.format(rate) + end for rate, end in ((1, FITTED), (2, ERROR), (3, FITTED))), "1 of 2"),
        ("".join(CONDOR.format(job, job % 3 == 1) for job in range(700)), "33 of the last 100"),
        (CONDOR.format(7, 0) * 2 + CONDOR.format(8, 9) + CONDOR.format(9, 0), "1 of 3"),
    ],
    ids=["a logger", "commands", "many jobs", "a job that was submitted again"],
)
def test_earlier_runs_that_did_not_fail_are_counted(log: str, counts: str) -> None:
    (note,) = [finding for finding in read(log).findings if finding.known.id == "earlier-runs"]

    assert note.detail.startswith(f"{counts}, ")


def test_failed_job_of_htcondor_gets_no_advice_for_slurm(cli: Cli, write: Write) -> None:
    write("job.log", CONDOR.format(8, 3))

    answer = cli("doctor", "job.log")

    assert answer.code == 1
    assert "condor_history" in answer.stdout
    assert "sacct" not in answer.stdout


def test_earlier_runs_that_failed_like_the_last_run_are_counted() -> None:
    runs = [JOB.format(101) + OOM, JOB.format(102) + ERROR, JOB.format(103) + ERROR]

    (note,) = [finding for finding in read("".join(runs)).findings if finding.known.id == "earlier-runs"]

    assert note.detail.startswith("2 of 2 (1 like the last run), the last other one with out-of-memory-gpu: ")


STOPS = {
    "a stall": ([FIRES["vllm-stall"][0], LIMIT], ["vllm-stall", "time-limit"]),
    "ranks that did not join": ([FIRES["lightning-waits"][0], LIMIT], ["lightning-waits", "time-limit"]),
    "the same before a cancellation": (
        [FIRES["lightning-waits"][0], CANCELLED.format(7)],
        ["lightning-waits", "cancelled"],
    ),
    "a connection that failed": (
        ["1: n2:1:2 [0] NCCL INFO socketStartConnect: Connect to 10.0.0.1<3> failed : Connection timed out", LIMIT],
        ["nccl-unreachable", "time-limit"],
    ),
    "a model on the CPU": (
        ["[2026-02-02 08:00:01,222][app][WARNING] - CUDA is not available, training on CPU", STEPS, LIMIT],
        ["ran-on-cpu", "time-limit"],
    ),
    "heartbeats that fail": (
        [FIRES["rendezvous-lost"][0].replace("WARNING:", "W0101 "), CANCELLED.format(7)],
        ["rendezvous-lost", "cancelled"],
    ),
    "a stall that ended": ([FIRES["vllm-stall"][0], STEPS, LIMIT], ["time-limit"]),
    "a stall before a signal that raises an exception": (
        [FIRES["vllm-stall"][2], "Terminated\n", ERROR],
        ["vllm-stall", "cancelled"],
    ),
    "a signal before a failure": (["Terminated\n", OOM], ["cancelled"]),
    "a failure before a signal": ([OOM, "Terminated\n"], ["out-of-memory-gpu"]),
    "an exception before a signal": ([ERROR, "Terminated\n"], ["exception"]),
    "Slurm names memory": (
        ["Terminated\n", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n"],
        ["out-of-memory-host"],
    ),
}


@pytest.mark.parametrize("case", STOPS)
def test_cause_of_a_stop_and_the_stop_are_in_order(case: str) -> None:
    logs, names = STOPS[case]

    assert found("\n".join(logs)) == names


def test_last_repeated_line_before_a_stop_is_shown() -> None:
    log = "".join(f"waiting for block {i}\n" for i in range(3)) + CANCELLED.format(7)

    assert ("log0:3", "waiting for block 2") in read(log).quotes


ENGINE_DIED = (
    "(Worker pid=30) ERROR 06-13 21:02:05 [executor.py:96] WorkerProc hit an exception.\n"
    + ERROR
    + "(APIServer pid=22) ERROR 06-13 21:02:05 [async_llm.py:70] vllm.v1.engine.exceptions.EngineDeadError: EngineCore"
    " encountered an issue.\n"
)
SERVED = 'INFO: "POST /v1/completions HTTP/1.1" 200 OK\n' * 60
SHUTDOWN = "INFO:     Shutting down\nINFO:     Application shutdown complete.\n"
OUTPUT = "resampling the data of one patient\n"
SERVERS = {
    "an engine that died after requests": (SERVED + ENGINE_DIED + SHUTDOWN, "exception"),
    "an engine that died, and a server that answers": (ENGINE_DIED + SERVED + SHUTDOWN, "engine-died"),
    "an error in one request": (SERVED + ERROR + SERVED + SHUTDOWN, "went-on"),
    "no error": (SERVED + SHUTDOWN, ""),
    "a sweep after a cancelled job": (
        STEPS + CANCELLED.format(7) + "wandb: Tracking run with wandb version 0.19\n" + OUTPUT * 60,
        "earlier-runs",
    ),
    "output of other ranks after the end": (STEPS + CANCELLED.format(7) + OUTPUT * 60, "cancelled"),
    "a run of wandb that was cancelled": (
        "wandb: Tracking run with wandb version 0.19\n" + STEPS + CANCELLED.format(7) + "wandb: Synced 5 files\n",
        "cancelled",
    ),
    "an error in a call of a logger": (STEPS + "3it [00:07]--- Logging error ---\n" + ERROR + STEPS, ""),
    "an error in a line of its own": (STEPS + "--- Loading ---\n" + ERROR + STEPS, "went-on"),
    "an index that pip skips": (
        "Could not fetch URL https://x/pip/: connection error: Failed to resolve IP address for 'x' ([Errno -2] Name or"
        " service not known) - skipping\nSuccessfully built a\n",
        "",
    ),
}


@pytest.mark.parametrize("case", SERVERS)
def test_end_of_a_server_or_of_a_job_is_no_progress(case: str) -> None:
    log, names = SERVERS[case]

    assert found(log) == names.split()


def test_note_shows_the_error_after_which_the_run_continued() -> None:
    (note,) = read("cxil_map: write error\n" + SERVED).findings

    assert (note.known.id, note.detail) == ("went-on", "cxil_map: write error")


NOTEBOOK = """Traceback (most recent call last):
  File "/v/bin/{0}", line 8, in <module>
    sys.exit(main())
{1}:\040
---------------------------------------------------------------------------
Exception encountered at "In [3]":
---------------------------------------------------------------------------
{2}                                Traceback (most recent call last)
Cell In[3], line 5
      3 data = read(path)
----> 5 model.fit(data)

File /home/u/project/models.py:42, in fit(data)
     41 def fit(data):
---> 42     raise {2}("the column age is missing")

{2}: the column age is missing
"""


@pytest.mark.parametrize(
    ("runner", "wrapper"),
    [
        ("papermill", "papermill.exceptions.PapermillExecutionError"),
        ("jupyter", "nbclient.exceptions.CellExecutionError"),
    ],
)
def test_error_in_a_notebook_precedes_the_error_of_its_runner(runner: str, wrapper: str) -> None:
    (finding,) = read(NOTEBOOK.format(runner, wrapper, "LookupError")).findings

    assert finding.detail.startswith("LookupError: the column age is missing at models.py:42 in fit")


@pytest.mark.parametrize(
    ("line", "is_shown"), [("Loaded 0 images from /d/test", True), ("Loaded 80 images from /d", False)]
)
def test_empty_data_before_an_exception_is_quoted(line: str, is_shown: bool) -> None:
    quotes = read(f"{line}\nstarting\n{ERROR}").quotes

    assert any(line in text for _, text in quotes) == is_shown


CAUGHT = [
    "Ignore import error when loading x.y: cannot import name 'A' from 'b' (/v/site-packages/b.py)\n",
    "Could not load libquant (optional): No module named 'torch'\n",
    "urllib3.exceptions.NewConnectionError: [Errno 101] Network is unreachable https://x. Retrying in 1s [1/5]\n",
    OOM + "Reducing the batch size and trying again\n",
    "Could not load the optional extension:\n" + ERROR,
    "[worker 3] Skipping corrupt sample 9: OSError: image file is truncated (3 bytes not processed)\n",
]


@pytest.mark.parametrize("caught", CAUGHT)
def test_caught_error_is_no_failure_unless_it_is_the_last_message(caught: str) -> None:
    assert ids(read(caught + "a\nb\n")) <= {"went-on"}
    assert "exception" in found(caught + "a\n" + ERROR)


def test_caught_error_is_shown_if_the_process_then_ended_with_an_error() -> None:
    log = "Could not load the optional extension:\n" + ERROR + "srun: error: n1: task 3: Exited with exit code 1\n"

    assert found(log) == ["exception"]


LINES = {"DOS line breaks": "{}\r", "srun --label": "0: {}", "colours": "\x1b[32m{}\x1b[0m"}
OF_SCRIPTS = ("01-two-runs", "12-script-does-not-compile")
"""Logs of batch scripts that start several programs. srun labels the lines of only one program."""


@pytest.mark.parametrize("form", LINES.values(), ids=list(LINES))
@pytest.mark.parametrize("name", EXPECTED)
def test_labels_colours_and_line_breaks_do_not_change_the_findings(name: str, form: str) -> None:
    log = (FIELD / f"{name}.log").read_text(encoding="utf-8")
    changed = "".join(f"{form.format(line)}\n" for line in log.splitlines())

    assert found(changed) == found(log) or (form.startswith("0") and name in OF_SCRIPTS)


def test_runs_of_a_logger_are_separate_behind_labels() -> None:
    run = "2026-02-14 02:38:{0} - fit - INFO - Loading the data set\n"
    failed = run.format("01") + TRACEBACK.replace("[rank{0}]: ", "").replace("{0}", "3")
    log = failed + run.format("40") + STEPS.replace("3: ", "") + "Training completed\n"

    assert found(log) == ["earlier-runs"]
    assert found("".join(f"0: {line}\n" for line in log.splitlines())) == ["earlier-runs"]


NCCL_WARNINGS = """graph/search.cc:1135 NCCL WARN Could not find a path for pattern 1, falling back to simple order
graph/topo.h:230 NCCL WARN Could not find NET with id 0
"""


def test_caught_error_is_shown_if_the_last_line_is_an_error() -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: x.cpp:3376, internal error, NCCL version 2.25.1\n"

    assert found(NCCL_WARNINGS + error) == ["nccl-topology"]
    assert found(NCCL_WARNINGS + "a\nb\n") in ([], ["went-on"])


REMOTE = (
    "[ERROR] rank {0}: unexpected exception\nTraceback (most recent call last):\n"
    '  File "sweep.py", line 9, in run\n'
    "RuntimeError: [/g/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.8]:29609\n\n"
)
SETTINGS = [f"[{n}/30] Batch: {n}\n" + REMOTE.format(0) + REMOTE.format(1) for n in range(1, 31)]
SKIPPED = "[WARNING] OOM on rank 2, skipping.\n"


@pytest.mark.parametrize(
    ("log", "is_broken"),
    [
        ("".join(setting + SKIPPED for setting in SETTINGS) + "Best: 5\nDone.\n", False),
        ("".join(setting + SKIPPED for setting in SETTINGS) + ERROR, True),
        ("".join(setting + SKIPPED for setting in SETTINGS) + SETTINGS[0], True),
        ("".join(SETTINGS) + "Done.\n", True),
        (SETTINGS[0] + SKIPPED + "Done.\n", True),
    ],
    ids=["each caught", "another error at the end", "last not caught", "none caught", "only one"],
)
def test_error_that_a_sweep_catches_each_time_is_no_failure(log: str, is_broken: bool) -> None:
    assert any(finding.known.severity == "broken" for finding in read(log).findings) == is_broken


SERVER = (
    "(EngineCore pid=9) INFO 02-03 10:24:34 [core.py:1214] [shutdown] EngineCore: trigger received signal=SIGTERM\n"
)
CLOSED = "(APIServer pid=7) INFO:     Application shutdown complete.\n"


@pytest.mark.parametrize(
    ("between", "names"),
    [
        ("(APIServer pid=7) WARNING 02-03 10:24:34 [utils.py:626] force killing remaining processes count=1\n", []),
        ("(APIServer pid=7) ERROR 02-03 10:24:34 [llm.py:704] EngineDeadError: EngineCore failed.\n", ["cancelled"]),
    ],
    ids=["in order", "with an error"],
)
def test_server_that_ends_in_order_after_a_signal_was_not_cancelled(between: str, names: list[str]) -> None:
    assert found(SERVER + between + CLOSED) == names


def test_excerpt_of_nccl_lines_is_no_log_without_an_end(cli: Cli, write: Write) -> None:
    line = "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
    excerpt = write("excerpt.log", f"We see this output:\n{line}")
    log = write("whole.log", f"n1:9:9 [0] {line}")
    os.utime(excerpt, (0, 0))
    os.utime(log, (0, 0))

    assert "no failure found" in cli("doctor", str(excerpt)).stdout
    assert "no-end" in cli("doctor", str(log)).stdout


UNKNOWN = """Lmod has detected the following error:  The following module(s) are unknown:
"fftlib/3.3"

Please check the spelling or version number. Also try "module spider ..."
"""
SHELL_OUTPUT = "Mon Jan 12 09:00:01 CET 2026\nn1\nPython 3.11.4\ntorch version: 2.9\nelapsed: 3.0\n"
MODULES = {
    "results": (UNKNOWN + SHELL_OUTPUT + "residual = 3.2e-09\nenergy: -1.25\nDONE\n", "went-on"),
    "the end of a trainer": (UNKNOWN + SHELL_OUTPUT + "{'train_runtime': 37.7}\nDONE\n", "went-on"),
    "steps of the script": (UNKNOWN + "Step 1: prepare\nStep 2: train\nDONE\n", "module-unknown"),
    "many lines": (UNKNOWN + OUTPUT * 60, "went-on"),
    "output of the shell": (UNKNOWN + SHELL_OUTPUT + "DONE\n", "module-unknown"),
    "one result": (UNKNOWN + SHELL_OUTPUT + "energy: -1.25\nDONE\n", "module-unknown"),
    "an error": (UNKNOWN + "a = 1.5\nb = 2.5\nfft.c: cannot open plan\nDONE\n", "module-unknown"),
    "no end": (UNKNOWN + "a = 1.5\nb = 2.5\nloading the data\n", "module-unknown"),
}


@pytest.mark.parametrize("case", MODULES)
def test_program_that_worked_without_a_module_is_no_failure(case: str) -> None:
    log, name = MODULES[case]

    assert found(log) == [name]


QUIET = {
    "a row of a table": "killed 0.91 0.90 0.91 512\n| error | 0.77 | 0.71 |\n",
    "counts of zero": "step 10 | failed allreduces 0 | lost packets 0\n",
    "an evaluation of code": STEPS + "Problem HumanEval/16: failed (NameError: name 'x' is not defined)\nPass: 0.4\n",
    "a tuner": "[W 2024-02-02] Trial 9 failed because of the following error: ValueError('loss is nan').\nBest: 0.9\n",
    "text for a model": 'Prompt 1: How do I fix "RuntimeError: CUDA out of memory"?\nAnswer: Your job was killed.\n',
    "the text of a judge": "Judge reasoning: The student failed to model the force.\nscore 2\n",
    "an attempt": "could not parse the reply (attempt 1/4): missing bracket\nok\n",
    "a smaller batch": "CUDA out of memory at batch size 64, trying 32\nmax batch size: 32\n",
    "a rate": "Acc@1: 76.1 Error@1: 23.9\nFailure cases saved to f.json (12 of 400)\n",
    "errors per class": "cat: error 0.11\ndog: error 0.07\nFinished. 2 succeeded, 1 failed.\n",
    "an explanation": "The most likely reason you are seeing this error is that you fork.\nuse spawn\n",
    "a file that a hook cannot remove": "rm: cannot remove '/usr/local/x': Read-only file system\nEND TIME: now\n",
    "an ignored import with a label": "[2026-06-09 03:34:54 TP1] Ignore import error: cannot import name 'G'\na\nb\n",
    "a help message of Open MPI": (
        "The library attempted to open the following supporting CUDA libraries,\nbut each of them failed.\n"
        "libcuda.so.1: cannot open shared object file: No such file or directory\n"
        "/usr/lib64/libcuda.dylib: cannot open shared object file: No such file or directory\n1813.6 steps per second\n"
    ),
    "a module that is loaded already": (
        "  ERROR: tbb/2021.7.0 cannot be loaded due to a conflict.\n" + OUTPUT * 60 + "Successfully completed.\n"
    ),
    "a number like an exit code": "processed 137 files\nreturned 3 items, code 124\nreturn code: 0\nfinished.\n",
    "a server without an error": "Bypassing signal SIGTERM\nWorkers stop if SIGTERM is received\n",
}


@pytest.mark.parametrize("case", QUIET)
def test_words_of_a_failure_in_a_healthy_log_are_no_finding(case: str) -> None:
    assert set(found(QUIET[case])) <= {"went-on"}


FAILURES = {
    "an exception below an optional import": ("Could not import apex (optional): bad symbol\n" + ERROR, "exception"),
    "a command that timeout ended": ("step 1\nexit code 124\n", "cancelled"),
    "a script that reports SIGKILL": ("step 1\ntrain.py exited with code 137\n", "killed"),
    "a status of SIGKILL": ("step 1\nfinished with exit status: 137\n", "killed"),
    "a closed terminal": ("step 1\nReceived 1 death signal, shutting down workers\n", "cancelled"),
    "a raylet that ended": (
        "(raylet) agent.cc:8: The raylet exited immediately because an agent failed\n",
        "ray-node-start",
    ),
    "a cache in the home directory": (
        "OSError: [Errno 122] Disk quota exceeded: '/h/.cache/huggingface/a'\n",
        "disk-full",
    ),
    "a container that was killed": ("    State: Terminated\n    Exit Code:    137\n", "killed"),
    "the last of four attempts": ("failed to parse the reply (attempt 4/4): missing bracket\n", "failed"),
    "a shell that goes on": (ERROR + "Training completed!\n", "exception"),
    "LSF goes on": (ERROR + "Successfully completed.\n\nResource usage summary:\n", "exception"),
    "LSF reports an exit code": ("training\nExited with exit code 3.\n\nResource usage summary:\n", "ended"),
    "HTCondor reports a return value": (
        "005 (7.0.0) Job terminated.\n\t(1) Normal termination (return value 3)\n",
        "ended",
    ),
    "HTCondor reports a signal": ("005 (7.0.0) Job terminated.\n\t(0) Abnormal termination (signal 6)\n", "ended"),
    "a script with tabs": ('  File "t.py", line 7\n    a = 1\nTabError: inconsistent use of tabs\n', "exception"),
    "docker's Python package": (
        ERROR.replace(
            "ValueError: batch 3 is empty", "docker.errors.DockerException: Error while fetching server API version: x"
        ),
        "container-start",
    ),
    "a task that nobody awaited": (
        "Task exception was never retrieved\nfuture: <Task finished name='T' exception=E('x')>\n" + ERROR + "bye\n",
        "went-on",
    ),
    "a configuration that is skipped": (
        ERROR + "[WARNING] size 64 failed: too large - skipping it\nsize 16: 9 ms\n",
        "went-on",
    ),
    "a file that is skipped": ("ValueError: bad header in b.h5, skipping file\nc.h5: 120 rows\n", "went-on"),
    "a step that is skipped after the failure": (
        ERROR + "Skipping final evaluation\nsrun: error: n1: task 0: Exited with exit code 1\n",
        "exception",
    ),
    "a loss that recovers": (
        "".join(f"\rEpoch 0: {step}/99 [00:02, 1.4it/s, loss={'nan' if step < 2 else 3.1}]" for step in range(1, 60))
        + "\n",
        "went-on",
    ),
    "PowerShell": (
        "x : step 1\n    + CategoryInfo          : NotSpecified: (x) [], RemoteException\n"
        "    + FullyQualifiedErrorId : NativeCommandError\nbye\n",
        "",
    ),
    "conda finds no package": (
        "Solving environment: failed\n\nPackagesNotFoundError: Not available from channels:\n\n  - q=9\n",
        "install-failed",
    ),
    "conda finds no versions": (
        "LibMambaUnsatisfiableError: Encountered problems while solving:\n  - nothing provides q 9\n",
        "install-failed",
    ),
    "pip finds no versions": (
        "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\n",
        "install-failed",
    ),
    "pip cannot build": ("  x Getting requirements to build wheel did not run successfully.\n", "install-failed"),
    "PBS reports an exit status": ("training\n======\n   Exit Status:        137\n======\n", "ended"),
    "an illegal instruction": ("['a.', 'b.']: a subprocess exited due to signal 4 (SIGILL).\n", "wrong-architecture"),
    "a long command": (f"Command '{['x' * 300]}' returned non-zero exit status 1.\n", "ended"),
    "CMake": ("CMake Error at a.cmake:2 (message):\n  Could NOT find MPI\n-- Configuring incomplete\n", "failed"),
    "a path that is None": (
        ERROR.replace(
            "ValueError: batch 3 is empty", "TypeError: expected str, bytes or os.PathLike object, not NoneType"
        ),
        "exception",
    ),
    "git": ("remote: error: file x is 150.01 MB\nerror: failed to push some refs to 'x'\n", "failed"),
    "unittest": ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)\n", "failed"),
    "a handler of a signal": ("step 1\nSIGTERM received, saving checkpoint and exiting\n", "cancelled"),
    "a user": ("step 1\nTraining interrupted by user. Saving checkpoint\n", "cancelled"),
    "a user at the keyboard": ("step 1\nAborted by the user\n", "cancelled"),
    "a warning before a cancellation": (
        "/v/p.py:2: RuntimeWarning: x size changed, may indicate binary incompatibility.\n" + CANCELLED.format(7),
        "cancelled numpy-abi",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_kind_of_a_failure(case: str) -> None:
    log, names = FAILURES[case]

    assert found(log) == names.split()


def _epochs(last: int, more: str = "") -> str:
    return "".join(f"Epoch {number}: train_loss=0.{number}{more}\n" for number in range(1, last + 1))


WORK = "Smoothing the signal\n   N = 12  F = 3.1E-2\n"
ITEM = "Reading /d/a1.edf\nFound 19 channels in it\n" + WORK + "Closing /d/a1.raw [done]\n"
ENDS = {
    "a reason in the line with which a program ends": ("loading\nNo data found in /x, exiting.\n", 1),
    "no improvement": (STEPS + "The validation loss is not improving.\nExiting.\n", 0),
    "a result that is written last": (STEPS + "Writing output ...\n", 0),
    "an accuracy": (STEPS + "Testing accuracy: 93.2%\n", 0),
    "the best result": (STEPS + "Best val_loss: 0.41 at epoch 31/100\n", 0),
    "a validation": (STEPS + "{'eval_loss': 0.41, 'eval_samples_per_second': 12.3, 'epoch': 3.0}\n", 0),
    "PBS reports no failure": (STEPS + "======\n   Exit Status:        0\n   Memory Used: 3GB\n======\n", 0),
    "a speed": (STEPS + "average speed 1.2 it/s\n", 0),
    "an early stop": ("Epoch 31/100 | loss 0.4\nEarly stopping triggered\nrestored the best weights\n", 0),
    "a table of a benchmark": ("step 90 | 41 samples/s\n P95 step: 18 ms\n Throughput (mean):42.7 samples/s\n", 0),
    "a summary of wandb": ("wandb: loss 0.2\nwandb: Synced 5 W&B file(s)\nwandb: Find logs at: ./wandb/x\n", 0),
    "a warning at the exit": (STEPS + "[W1 p.cpp:9] Warning: destroy_process_group() was not called before exit\n", 0),
    "a score of the last test": (STEPS + "Test set: Average loss: 0.03, Accuracy: 9914/10000 (99%)\n", 0),
    "a total in the arguments": ("Namespace(epochs=12, lr=0.1)\n" + _epochs(12), 0),
    "a total in the arguments, and no end": ("Namespace(epochs=12, lr=0.1)\n" + _epochs(9), 1),
    "a total in a command": ("+ python fit.py --epochs 4 --lr 1\n" + _epochs(4), 0),
    "two models with their totals": (
        "Training a for 6 epochs\n" + _epochs(6) + "Training b for 4 epochs\n" + _epochs(4),
        0,
    ),
    "the best weights of Keras": (
        "epochs: 9\n" + _epochs(4) + "Restoring model weights from the end of the best epoch: 2.\n",
        0,
    ),
    "a total in words": ("Training for 6 epochs\n" + _epochs(6), 0),
    "a total, counted from 0": ("num_epochs: 3\nepoch 0 loss 2\nepoch 1 loss 1\nepoch 2 loss 0\n", 0),
    "a total, counted in tens": ("max_steps=40\nstep=0 loss=1\nstep=10 loss=1\nstep=20 loss=1\nstep=30 loss=1\n", 0),
    "a total, counted in tens, and no end": ("max_steps=40\nstep=0 loss=1\nstep=10 loss=1\nstep=20 loss=1\n", 1),
    "a total of another unit": ("num_epochs: 3\nwarmup_steps: 20\nepoch 3 step 20 loss 1\n", 1),
    "a total at the start of a long log": ("epochs: 6000\n" + _epochs(6000, " " + "x" * 90), 0),
    "epochs of Keras": ("".join(f"Epoch {i}/3\n50/50 - 9s - loss: 1.2\n" for i in (1, 2, 3)), 0),
    "epochs of Keras, and no end": ("".join(f"Epoch {i}/3\n50/50 - 9s - loss: 1.2\n" for i in (1, 2)), 1),
    "a score of each epoch, and no end": (
        "--epochs 9\n" + "".join(f"Train Epoch: {i} [50/60 (99%)]\nTest set: Average loss: 0.{i}\n" for i in (1, 2)),
        1,
    ),
    "a score after the name of a run": (
        "Train Epoch: 9 [0/50 (0%)]\ncnn: Test Epoch: 9, Test set: Average loss: 1.4\n",
        0,
    ),
    "a score before the last epoch": ("cnn: Test Epoch: 9/30, Test set: Average loss: 1.4\n", 1),
    "a score of an evaluation": ("Average Loss: 3.4,  Average Accuracy: 0.7,  Samples: 165\n", 0),
    "a score of an epoch": ("INFO:root:Epoch 4 - Average Loss: 3.4, Average Accuracy: 0.7, Samples: 165\n", 1),
    "a remark of a compiler": ("solve:\n     59, Generating implicit copy(u(:)) [if not already present]\n", 0),
    "a stage without a total": ("solve:\nGenerating the mesh\n", 1),
    "a bar without a total": ("100it [01:40,  1.01it/s]\n", 0),
    "a checkpoint after a last step that is counted from 0": ("Epoch 4/5 | loss 0.1\nModel weights saved to m.pt\n", 0),
    "a checkpoint after the last step": ("Epoch 9/9 | loss 0.1\nNew best model saved to best.pt\n", 0),
    "a checkpoint after a step": ("Epoch 2/100 | loss 0.1\nNew best model saved to best.pt\n", 1),
    "warnings after a step": (
        "Train Epoch: 0 [ 823/10977 (8%)] Loss: 7.9\n14: /v/p.py:900: UserWarning: cut file\n14:   warnings.warn(s)\n",
        1,
    ),
    "a step with elapsed time": (" iteration 120/ 5000 | elapsed time per iteration (ms): 2910.3 | lm loss: 7.2\n", 1),
    "a report after each step": (
        "".join(
            f" iteration {step}/   800 | elapsed time per iteration (ms): 99.1\ntime (ms) | forward: 1.{step}\n"
            for step in (1, 2)
        ),
        1,
    ),
    "a report after the heading of each epoch": ("== Epoch [1/9] ==\nfit: 0.7\n== Epoch [2/9] ==\nfit: 0.6\n", 1),
    "a report after the last step": ("step 1/2 | loss 3\ntook part: 0.7\nstep 2/2 | loss 2\ntook part: 0.6\n", 0),
    "an installation before the work": ("Successfully installed q-1.2\nRunning training on n7\n", 1),
    "a server that is still compiling": (
        "(EngineCore pid=7) INFO 08-01 [monitor.py:5] torch.compile took 9 s in total\n",
        1,
    ),
    "an interval without an end": (
        'training done\n:::MLLOG {"event_type": "INTERVAL_START", "key": "block_start"}\n',
        1,
    ),
    "an installation": ("Collecting q\n  Using cached q-1.2-py3-none-any.whl (18 MB)\n", 1),
    "an environment": ("Executing transaction: done\n#\n#     $ conda activate x\n#\n#     $ conda deactivate\n\n", 0),
    "a search for versions": ("#9 INFO: This is taking longer than usual.\n#9 this run, press Ctrl + C.\n", 1),
    "modules": ("Loading nccl/2.27\n  Loading requirement: gcc/13.1 cuda/12.8\nmodule: loading 'fftw/3'\n", 0),
    "results of an estimator": ("INFO:tensorflow:***** Eval results *****\nINFO:tensorflow:  loss = 1.2\n", 0),
    "an end with dots": ("epoch 3 | loss 0.3\ntraining ends ...\n", 0),
    "NCCL tests, whose NCCL ends after them": (
        "# Avg bus bandwidth    : 178.1\n#\n# Collective test concluded: all_reduce_perf\n\n"
        "n1:64904:64936 [0] NCCL INFO RAS handling local termination request\n"
        "n1:64904:64936 [0] NCCL INFO RAS thread terminating\n",
        0,
    ),
    "HTCondor": ("005 (7.0.0) Job terminated.\n\t(1) Normal termination (return value 0)\n\t\tUsr 0 04:02:18\n", 0),
    "BuildKit": ("#9 naming to docker.io/u/app:2 0.1s done\n#9 DONE 0.4s\n", 0),
    "a step after a colon": ("step:1200/5000 train_loss:3.21 train_time:120312ms\n", 1),
    "a validation after a step": ("Epoch 2/100 | loss 0.1\nValidation loss: 0.2\n", 1),
    "a bar that has not begun": (STEPS + "Sanity Checking: 0it [00:00, ?it/s]\n", 1),
    "the first line of a trainer": (STEPS + "***** Running training *****\n  Num examples = 52,002\n", 1),
    "a stage": ("=== Stage 2/5: alignment ===\n", 1),
    "a completed step": ("completed step: 10, seconds: 2.4, loss: 9.2\n" * 9, 1),
    "a question of an evaluation": ("[12:11:20] Evaluating question 12/200\n", 1),
    "trials that run": ("Logical resource usage: 4/4 GPUs\nNumber of trials: 4/20 (4 RUNNING)\n", 1),
    "loaded weights": ("Loading safetensors checkpoint shards:  33% Completed | 10/30 [00:21<00:44, 2.2s/it]\n", 1),
    "step 55 of 100": ("epoch 1 | step 55/100 | loss 0.4\n", 1),
    "a bar": ("loading\n\rTrain:  55%|#####     | 55/100 [00:10<00:08, 5.1it/s]", 1),
    "steps without a total": (STEPS, 1),
    "a server compiles": ("INFO 02-03 [backends.py:51] Compiling a graph for dynamic shape\n", 1),
    "a server loads a model": ("INFO 11-24 08:50:33 [cuda.py:362] Using Flash Attention backend on V1 engine.\n", 1),
    "the last step": ("epoch 1/1 | step 100/100 | loss 0.4\n", 0),
    "an end": (STEPS + "Training finished in 12 s\nbye\n", 0),
    "a saved result": (STEPS + "answers written to answers.jsonl\n", 0),
    "a server that was stopped": ('INFO: "POST /v1 HTTP/1.1" 200 OK\nINFO: Application shutdown complete.\n', 0),
    "a server that may still run": ('INFO: "POST /v1/completions HTTP/1.1" 200 OK\n', 0),
    "a file after a saved file": (ITEM * 4 + WORK, 1),
    "a saved file": (ITEM * 5, 0),
    "a line that follows each saved file": ((ITEM + "took: a while\n") * 5, 0),
    "a new line after the saved files": (ITEM * 5 + "all files in /d/out\n", 0),
    "an epilog after a step of a known total": ("Epoch 3/9 | loss 0.1\nEpilog script 4\n", 1),
}


@pytest.mark.parametrize("case", ENDS)
def test_log_that_stops_in_the_middle_is_a_problem(cli: Cli, write: Write, case: str) -> None:
    log, code = ENDS[case]
    write("job.out", log)

    fresh = cli("doctor", "job.out")
    os.utime("job.out", (0, 0))
    answer = cli("doctor", "job.out")

    assert fresh.code == (code if "failure without" in fresh.stdout else 0)
    assert answer.code == code
    assert bool(re.search("stops without an end: last: |a failure without", answer.stdout)) == bool(code)
    assert bool(re.search("no (?:problems|failure) found", answer.stdout)) == (not code)


def test_log_with_an_unknown_last_line_is_not_called_healthy(cli: Cli, write: Write) -> None:
    write("job.out", "a\nthe accuracy is 0.9\n")
    os.utime("job.out", (0, 0))

    answer = cli("doctor", "job.out")

    assert (answer.code, answer.stdout) == (0, "no failure found, and no end of the run, in the log (2 lines)\n")


TRANSCRIPT = "{0}\nsay this and that\n/d/a{0}.wav\nLikelihood: [{0}1.5]\n"


@pytest.mark.parametrize(
    ("log", "is_end"),
    [
        ("Accuracy: 0.71\n", True),
        ("Epoch 1 | loss=2\nEpoch 2 | loss=1\nTEST | loss=0.3 acc=0.8\n", True),
        ("Run 1/2\n9.1 tokens/sec\nRun 2/2\n9.3 tokens/sec\nGPU 0: 9.2 tokens/sec (avg of 2 runs)\n", True),
        ("step 1 loss 2\nProfiling complete. Results in: a/\n  tensorboard --logdir a\n", True),
        ("Accuracy: 0.6\nthe next fold\nAccuracy: 0.71\n", False),
        ("F1 Score of the parts\n", False),
        ("Epoch 0: Loss 0.3\nEpoch 1: Loss 0.2\nGPU Epilog Script v1.2\n", True),
        ("".join(map(TRANSCRIPT.format, range(9))), True),
        ("".join(map(TRANSCRIPT.format, range(9))) + "9\nsay this and that\n", False),
        ("".join(f"Processed part {n} of it\n" for n in range(9)), False),
        ('INFO: "POST /v1/completions HTTP/1.1" 200 OK\n', False),
    ],
    ids=[
        "a result",
        "a test",
        "an average",
        "a report",
        "one of several",
        "a heading",
        "an epilog",
        "items",
        "a part of an item",
        "one line",
        "a server",
    ],
)
def test_last_line_of_the_last_item_or_result_is_an_end(cli: Cli, write: Write, log: str, is_end: bool) -> None:
    write("job.out", "starting with the settings\n" + log)
    os.utime("job.out", (0, 0))

    answer = cli("doctor", "job.out")

    assert answer.code == 0
    assert ("no end of the run" in answer.stdout) == (not is_end)


WIDTH = 24
NOTE = """At line:1 char:1
+ pip install -r all.txt\x20
 2> log.txt
+ ~~~~~~~~~~~~~~~~~~~~~~
~~~~~~~~~~~
    + CategoryInfo     \x20
      : NotSpecified:  \x20
  (ERROR: one:String)  \x20
[], RemoteException
    + FullyQualifiedErr\x20
   orId : NativeCommand\x20
  Error
\x20
"""


def _as_powershell_prints(line: str) -> str:
    pieces = []
    while len(line) > WIDTH:
        at = line.rfind(" ", 0, WIDTH) + 1 or WIDTH
        pieces.append(line[:at])
        line = line[at:]
    return "\n".join([*pieces, line]) + "\n"


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (
            "ERROR: Could not build wheels for quickhull_of_many_points, which is required to install q",
            ["install-failed"],
        ),
        ("WARNING: Ignoring invalid distribution ~uick (C:\\Users\\me and you\\venv\\Lib\\site-packages)", []),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_error_that_powershell_wraps_is_read_in_one_piece(error: str, names: list[str], encoding: str) -> None:
    lines = _as_powershell_prints(error)
    notice = _as_powershell_prints("[notice] To update, run: python.exe -m pip install --upgrade pip")
    log = f"pip : \n{NOTE}{lines}Collecting q\n{notice}".replace("\n", "\r\n").encode(encoding)

    seen = read_logs([("log0", io.BytesIO(log))], SCANNER)
    examination = with_end(examined(seen, KNOWN), seen, KNOWN)

    assert [finding.known.id for finding in examination.findings] == names
    assert examination.has_end
    assert [(finding.place, finding.detail) for finding in examination.findings] == [
        (f"log0:{NOTE.count(chr(10)) + 2}", error.removeprefix("ERROR: ")) for _ in names
    ]


CHECKPOINT = """Traceback (most recent call last):
  File "/home/u/resume.py", line 31, in resume
    dcp.load(parts, checkpoint_id=path)
  File "/v/lib/python3.12/site-packages/torch/distributed/checkpoint/utils.py", line 219, in reduce_scatter
    raise result
torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1])
Traceback (most recent call last): (RANK 0)
  File "/v/lib/python3.12/site-packages/torch/distributed/checkpoint/filesystem.py", line 64, in read
    self.check(name)
ValueError: the part x9 has no length

"""


def test_exception_of_a_rank_is_shown_for_a_checkpoint_that_does_not_load() -> None:
    (finding,) = read(CHECKPOINT).findings

    assert finding.detail == "ValueError: the part x9 has no length at resume.py:31 in resume"


KEYS = {
    'Missing key(s) in state_dict: "a.w". \n\tUnexpected key(s) in state_dict: "module.a.w". ': "consume_prefix",
    'Missing key(s) in state_dict: "module.a.w". \n\tUnexpected key(s) in state_dict: "a.w". ': "before you wrap",
    'Missing key(s) in state_dict: "a.w". \n\tUnexpected key(s) in state_dict: "b.w". ': "settings",
    "size mismatch for a.w: copying a param with shape torch.Size([3]) from checkpoint, "
    "the shape in current model is torch.Size([2]).": "number of classes",
}


@pytest.mark.parametrize("message", KEYS)
def test_state_dict_that_does_not_fit_is_shown_with_its_keys_or_shapes(cli: Cli, write: Write, message: str) -> None:
    error = f"RuntimeError: Error(s) in loading state_dict for Net:\n\t{message}"
    write("job.out", ERROR.replace("ValueError: batch 3 is empty", error))

    answer = cli("doctor", "job.out")

    assert "state-dict-mismatch" in answer.stdout
    assert ('"module.a.w"' in answer.stdout) == ("module" in message)
    assert ("torch.Size([2])" in answer.stdout) == ("shape" in message)
    assert KEYS[message] in answer.stdout


def test_layers_that_a_program_skips_are_no_failure() -> None:
    line = "size mismatch for head.w: copying a param with shape torch.Size([3]) from checkpoint, the shape in current "

    assert found(f"WARNING: skipped {line}model is torch.Size([2]).\n" + STEPS) == []


@pytest.mark.parametrize(
    ("log", "fix", "absent"),
    [
        ("<urlopen error [Errno 101] Network is unreachable>", "https_proxy", "paste"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: no file", "export HF_HUB_OFFLINE=1", "curl"),
        ("RuntimeError: CUDA unknown error - this may be due to x", "nvidia-uvm", "--gpus-per-node"),
        ("SignalException: Process 7 got signal: 15", "who or what sent the signal", "Run `sacct"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T01:01:01 ***", "Run `sacct", "who or what"),
    ],
)
def test_fix_depends_on_the_line(cli: Cli, write: Write, log: str, fix: str, absent: str) -> None:
    write("job.out", log + "\n")

    answer = cli("doctor", "job.out").stdout

    assert fix in answer
    assert absent not in answer


@pytest.mark.parametrize(
    "end",
    [
        "Fused CUDA times:\nMean: 0.02s\nRuns: [0.02, 0.02]\n\nSpeedup\nFused vs eager: 1.42x\n",
        "== FERTIG mit qwen ==\n",
        "the latency test completed successfully\n\nNotes:\n" + "- the plugin uses RDMA\n" * 7,
        "[2026-03-01 10:00:00,1][src.u][INFO] - Closing loggers...\nNo metric! Skipping the value...\n",
    ],
    ids=["a factor", "another language", "notes after the end", "a remark after the end"],
)
def test_end_of_a_run_is_recognized(cli: Cli, write: Write, end: str) -> None:
    write("job.out", "reading the model\n" + end)
    os.utime("job.out", (0, 0))

    assert cli("doctor", "job.out").stdout.startswith("no problems found in the log")


@pytest.mark.parametrize(
    ("log", "is_named"),
    [
        ("+ torchrun fit.py\nModuleNotFoundError: No module named 'weather'\n", "-m torch.distributed.run"),
        ("uenv started\nModuleNotFoundError: No module named 'weather'\n", "uenvtool venv PATH"),
        ("ModuleNotFoundError: No module named 'weather'\n", "python3 -m pip install"),
    ],
    ids=["torchrun", "an overlay", "neither"],
)
def test_advice_for_a_missing_module_fits_the_log(cli: Cli, write: Write, log: str, is_named: str) -> None:
    write("job.out", log)

    answer = cli("doctor", "job.out").stdout

    assert is_named in answer
    assert ("overlay" in answer) == ("uenv " in log)


BUILDS = {
    "pip": (
        "No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n"
        "  WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
        "Building wheels for collected packages: flash-attn\nSuccessfully built flash-attn\n"
    ),
    "BuildKit": (
        "#8 2.1 W: Failed to fetch http://x/InRelease  Temporary failure resolving 'x'\n"
        "#12 naming to docker.io/library/train:dev done\n#12 DONE 0.4s\n"
    ),
    "CMake": "-- Could NOT find MPI_C (missing: MPI_C_WORKS)\n-- Performing Test A - Failed\n[100%] Built target a\n",
    "uv": "warning: Failed to hardlink files; falling back to copy.\nInstalled 9 packages in 2ms\n + torch==2.9.0\n",
    "Apptainer": "ERROR: No CUDA runtime is found\nINFO:    Build complete: train.sif\n",
}


@pytest.mark.parametrize("build", BUILDS)
def test_successful_build_is_healthy(build: str) -> None:
    assert set(found_at_end(BUILDS[build])) <= {"went-on"}


def test_build_does_not_hide_a_later_failure() -> None:
    assert found_at_end("[100%] Built target a\nInstalled 9 packages in 2ms\n + x==1\n" + ERROR) == ["exception"]


def test_advice_of_a_failure_without_a_finding_is_shown() -> None:
    (finding,) = read("OMP: Error #15: found liba.so already initialized.\nYou can set A_B=1 to continue.\n").findings

    assert (finding.known.id, finding.advice) == ("failed", "You can set A_B=1 to continue.")
