"""Test the output of `uenvtool check` on a terminal and in a pipe, its exit code, and the edits of --fix."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import ROOT, Answer, Cli, Write
from tests.support.kills import MAIN, command
from uenvtool.core.files import locked

JOB = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --time=1:0:0
set -x cat $0
srun torchrun --nproc-per-node=4 train.py --a-long-option=with-a-value --another=one-that-goes-on-and-on-and-on
"""
LATE = "#!/bin/bash\n#SBATCH --time=1\nls\n#SBATCH --mem=4G # much\n#SBATCH --partition=x\npython a.py\n"
TOKEN = "hf_" + "aB3" * 11 + "x"


def seen_on_a_terminal(place: Path, columns: int, *options: str, **environ: str) -> str:
    """Return the output of `check job.sh` on a terminal with that many columns, including escape sequences."""
    head, tail = pty.openpty()
    code = "import sys; from uenvtool.__main__ import main; sys.argv[0] = 'uenvtool'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "check", *options, "job.sh"], cwd=place, stdout=tail, stderr=tail,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environ},
    )  # fmt: skip
    os.close(tail)
    shown = b""
    while True:
        try:
            shown += os.read(head, 4096)
        except OSError:
            break
    process.wait()
    os.close(head)
    return shown.decode().replace("\r\n", "\n")


def test_terminal_output_shows_position_text_line_and_fix(write: Write, place: Path) -> None:
    write("job.sh", JOB)

    assert seen_on_a_terminal(place, 80, NO_COLOR="1") == (
        "job.sh:5:1: warning[set-x-cat]\n"
        '  set takes "cat" and the file name as the positional parameters $1 and $2\n'
        "  5 | set -x cat $0\n"
        "    | ^^^^^^^^^^^^^\n"
        "  fix: set -x; cat $0\n"
        "\n"
        "job.sh:6:1: error[launcher-in-launcher]\n"
        "  srun starts a launcher several times per node, and each launcher starts its\n"
        "  own ranks: srun starts 4 tasks on each node, and each torchrun starts 4 ranks\n"
        "  6 | srun torchrun --nproc-per-node=4 train.py --a-long-option=with-a-value ...\n"
        "    | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  fix: srun --ntasks-per-node=1 ..., or start python itself with one task per\n"
        "       GPU\n"
        "1 error and 1 warning in 1 file; --all also prints 2 hints; --fix fixes 1\n"
        "reasons and sources: `uenvtool explain set-x-cat launcher-in-launcher`\n"
    )


@pytest.mark.parametrize("columns", [40, 200])
def test_output_fits_the_terminal_and_has_colours(write: Write, place: Path, columns: int) -> None:
    write("job.sh", JOB)

    shown = seen_on_a_terminal(place, columns, "--all", NO_COLOR="")

    assert "\x1b[31merror[launcher-in-launcher]\x1b[0m" in shown
    assert "\x1b[33mwarning[set-x-cat]\x1b[0m" in shown
    plain = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert max(map(len, plain[:-1])) <= columns
    assert "positional" in " ".join(plain).split(), "no word is broken"


@pytest.mark.parametrize(
    ("columns", "line", "rule", "marked_text"),
    [
        (80, "true " * 60 + "; set -x cat $0", "set-x-cat", "set -x cat $0"),
        (200, "#SBATCH --nodes=1 \u2014time=1:0:0 # an hour", "typographic", "--nodes=1 \u2014time=1:0:0"),
    ],
    ids=["far to the right", "before a comment"],
)
def test_carets_mark_the_matched_text(
    write: Write, place: Path, columns: int, line: str, rule: str, marked_text: str
) -> None:
    write("job.sh", f"#!/bin/bash\n{line}\npython t.py\n")

    shown, carets = seen_on_a_terminal(place, columns, "--select", rule, NO_COLOR="1").splitlines()[2:4]

    assert shown[carets.index("^") : carets.rindex("^") + 1].lstrip() == marked_text


def test_a_problem_is_one_line_in_a_pipe(cli: Cli, write: Write) -> None:
    answer = cli("check", write("job.sh", JOB))

    first, second = answer.stdout.splitlines()
    assert first.startswith("job.sh:5:1: warning[set-x-cat] set takes ")
    assert first.endswith(": set -x cat $0; fix: set -x; cat $0")
    assert second.startswith("job.sh:6:1: error[launcher-in-launcher] ")
    assert (answer.code, answer.stderr) == (
        1,
        "1 error and 1 warning in 1 file; --all also prints 2 hints; --fix fixes 1\n"
        "reasons and sources: `uenvtool explain set-x-cat launcher-in-launcher`\n",
    )


def test_a_problem_is_one_line_on_a_terminal_with_format_concise(write: Write, place: Path, cli: Cli) -> None:
    file = write("job.sh", JOB)

    shown = seen_on_a_terminal(place, 60, "--format", "concise", NO_COLOR="1")

    assert shown.startswith(cli("check", file).stdout)


def piped(text: str, *options: str) -> Answer:
    """Return the answer of `check -` to a text on standard input."""
    line = command("check", "-", *options)
    done = subprocess.run(line, check=False, input=text, capture_output=True, text=True)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_standard_input_is_a_script_of_the_current_directory(write: Write, place: Path) -> None:
    write("train.py", "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n")
    (place / "logs").mkdir()
    text = "#!/bin/bash\n#SBATCH -N1 --gpus-per-node=4 -o logs/%j.out\nset -x cat $0\nsrun python train.py\n"

    lines = piped(text).stdout.splitlines()

    assert [line.partition(" ")[::2][0] for line in lines] == ["-:3:1:", "-:4:1:"]
    assert ["set-x-cat" in lines[0], "idle-gpus" in lines[1]] == [True, True]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", (), "-:1:1: the file is empty"),
        ("set -x cat $0\n", ("--fix",), "-:1:1: cannot fix it in place"),
    ],
)
def test_standard_input_that_cannot_be_checked_or_fixed(text: str, options: tuple[str, ...], message: str) -> None:
    answer = piped(text, *options)

    assert (answer.code, answer.stderr.splitlines()[0]) == (2, message)


def test_format_github_prints_annotations(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("jobs,a/100%.sh", "#!/bin/bash\n#SBATCH --time=1:0:0\npython t.py --p 5%, \u201cc\u201d\n")
    monkeypatch.setenv("UENVTOOL_DOCS", top := "https://docs.example.org")

    (line,) = cli("check", "--format", "github", file).stdout.splitlines()

    page = f"{top}/reference/rules/typographic.html"
    assert line.startswith(
        "::error file=jobs%2Ca/100%25.sh,line=3,col=1,endColumn=24,title=typographic::a typographic dash or quote"
    )
    assert ": python t.py --p 5%25, \u201cc\u201d; fix: write hyphens (--nodes=2, -N 2), and" in line
    assert line.endswith(f" ({page})")


def test_format_github_prints_hints_as_notices_with_the_command_that_explains_them(cli: Cli, write: Write) -> None:
    file = write("job.sh", "#!/bin/bash\n#SBATCH -N 1\nls\n")

    answer = cli("check", "--all", "--format", "github", file)

    assert answer.stdout.startswith("::notice file=job.sh,line=2,col=9,endColumn=13,title=time-limit-missing::")
    assert answer.stdout.endswith(" (uenvtool explain time-limit-missing)\n")
    assert answer.code == 0


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_format_github_cannot_be_combined_with_a_diff(cli: Cli, write: Write, option: str) -> None:
    answer = cli("check", option, "--format", "github", write("job.sh", LATE))

    assert (answer.code, answer.stderr.splitlines()[0]) == (2, f"error: {option} prints no annotations")


def test_problem_matcher_of_the_docs_reads_the_output(cli: Cli, write: Write) -> None:
    """Apply the matcher as VS Code does, and compare the result with the data of --json."""
    page = (ROOT / "docs" / "check.md").read_text()
    task = json.loads(re.findall(r"```text\n(\{.*?)```", page, re.DOTALL)[0])["tasks"][0]
    pattern = task["problemMatcher"]["pattern"]
    file = write("job.sh", JOB)
    assert (task["command"], task["args"]) == ("uenvtool", ["check", "--format", "concise", "--all", "${relativeFile}"])

    lines = cli("check", "--format", "concise", "--all", file).stdout.splitlines()

    matches = [re.fullmatch(pattern["regexp"], line) for line in lines]
    read = [
        {name: match[pattern[name]] for name in ("file", "line", "column", "severity", "code")}
        for match in matches
        if match
    ]
    assert read == [
        {**{name: str(row[name]) for name in ("file", "line", "column", "severity")}, "code": row["rule"]}
        for row in json.loads(cli("check", "--json", "--all", file).stdout)
    ]
    assert all(match and match[pattern["message"]] for match in matches)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (JOB, (), 1),
        (JOB, ("--exit-zero",), 0),
        (JOB, ("--select", "launch-blocking"), 0),
        (JOB, ("--select", "set-x-cat"), 1),
        ("#SBATCH -N 2\nsrun hostname\n", ("--all",), 0),
    ],
)
def test_exit_code_is_1_for_errors_and_warnings(
    cli: Cli, write: Write, text: str, options: tuple[str, ...], code: int
) -> None:
    assert cli("check", *options, write("job.sh", text)).code == code


def test_diff_prints_the_changes_of_fix_without_making_them(cli: Cli, write: Write) -> None:
    file = write("job.sh", LATE)

    answer = cli("check", "--diff", file)

    assert " #SBATCH --time=1\n-ls\n #SBATCH --mem=4G # much\n #SBATCH --partition=x\n+ls\n" in answer.stdout
    assert file.read_text() == LATE


def test_fix_edits_in_place_only_where_it_is_safe(cli: Cli, write: Write) -> None:
    file = write("job.sh", LATE + "set -x cat\npkill -f me\n")
    file.chmod(0o750)

    answer = cli("check", "--fix", file)

    assert file.read_text() == (
        "#!/bin/bash\n#SBATCH --time=1\n#SBATCH --mem=4G # much\n#SBATCH --partition=x\nls\npython a.py\n"
        "set -x; cat\npkill -f me\n"
    )
    assert file.stat().st_mode & 0o777 == 0o750
    assert answer.code == 1
    assert "[kill-by-pattern]" in answer.stdout
    assert "[set-x-cat]" not in answer.stdout
    assert cli("check", "--fix", file).stdout.count("@@") == 0


def test_fix_removes_only_the_temporary_file_of_a_killed_run(cli: Cli, write: Write, place: Path) -> None:
    file = write("job.sh", LATE)
    killed = "import os; os.replace = lambda *names: os._exit(9)"
    write(".mine.uenvtool-parts", "mine\n")

    done = subprocess.run(command("check", "--fix", file, code=f"{killed}; {MAIN}"), check=False)
    left = list(place.glob(".*.uenvtool-part"))
    cli("check", "--fix", file)

    assert (done.returncode, len(left)) == (9, 1)
    assert sorted(path.name for path in place.iterdir()) == [".mine.uenvtool-parts", "job.sh"]


@pytest.mark.parametrize("kind", ["changed", "latin"])
def test_script_that_cannot_be_fixed_is_unchanged_with_a_reason(kind: str, cli: Cli, write: Write, place: Path) -> None:
    """The second case waits for the lock of another run, which changes the script."""
    file = write("job.sh", LATE)
    if kind == "latin":
        file.write_bytes(LATE.encode() + b"# \xe9\n")
        answer = cli("check", "--fix", file)
    else:
        with ThreadPoolExecutor() as pool, locked(place, below=False):
            waiting = pool.submit(subprocess.run, command("check", "--fix", file), capture_output=True, text=True)
            while not (waiting.done() or any(f":{place.stat().st_ino} " in line for line in waits())):
                time.sleep(0.01)
            file.write_text(LATE + "ls\n")
        answer = Answer(waiting.result().returncode, waiting.result().stdout, waiting.result().stderr)

    assert answer.code == 2
    reason = {"latin": "convert the file to UTF-8", "changed": "job.sh:1:1: the file changed during the check"}
    assert reason[kind] in answer.stderr
    assert "#SBATCH --mem=4G # much\n" in file.read_text("latin-1")


def waits() -> list[str]:
    """Return the locks for which a process waits (proc_locks(5))."""
    return [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]


def test_late_option_that_also_appears_above_is_not_moved(cli: Cli, write: Write) -> None:
    file = write("job.sh", "#SBATCH --mem=1G\nls\n#SBATCH --mem=2G\n")

    cli("check", "--fix", file)

    assert file.read_text() == "#SBATCH --mem=1G\nls\n#SBATCH --mem=2G\n"


TYPESET = {
    "#SBATCH --time=1:0:0\r\nsrun a \\\r\n b\r\n": "#SBATCH --time=1:0:0\nsrun a \\\n b\n",
    "#SBATCH \u2013time=1:0:0 \u2013-mem=1G -\u2013qos=x\n": "#SBATCH --time=1:0:0 --mem=1G --qos=x\n",
    "#SBATCH\u00a0--time=1:0:0\u202f--mem=1G\u00a0\n": "#SBATCH --time=1:0:0 --mem=1G \n",
    "#SBATCH \u2013p x\n": "#SBATCH \u2013p x\n",
    "#SBATCH --mem\u200b=1G\n": "#SBATCH --mem\u200b=1G\n",
    "\u00a0#SBATCH --mem=1G\n": "\u00a0#SBATCH --mem=1G\n",
    "#SBATCH -t 1\nsrun \u2013n 4 \u2014mem=1G a\n": "#SBATCH -t 1\nsrun \u2013n 4 \u2014mem=1G a\n",
    "#SBATCH -t 1\nif [\u00a0-d a\u00a0]; then ls; fi\n": "#SBATCH -t 1\nif [ -d a ]; then ls; fi\n",
}
"""Scripts with characters from a web page, a text processor or Windows, and the text after --fix."""


@pytest.mark.parametrize("text", TYPESET)
def test_fix_replaces_typographic_characters_and_crlf(cli: Cli, write: Write, text: str) -> None:
    file = write("job.sh", text.encode())

    answer = cli("check", "--fix", file)

    assert file.read_bytes().decode() == TYPESET[text]
    assert answer.code == int(text == TYPESET[text]), answer.stdout


def test_fix_of_one_rule_keeps_crlf(cli: Cli, write: Write) -> None:
    file = write("job.sh", b"#!/bin/bash\r\nset -x cat $0\r\n")

    cli("check", "--fix", "--select", "set-x-cat", file)

    assert file.read_bytes() == b"#!/bin/bash\r\nset -x; cat $0\r\n"


def test_position_is_the_same_with_crlf(cli: Cli, write: Write) -> None:
    text = "#!/bin/bash\n#SBATCH --time=1:0:0\nexport A=1 \\\n  CUDA_LAUNCH_BLOCKING=1\npkill -f x\n"
    one, other = (
        json.loads(cli("check", "--json", write("job.sh", content.encode())).stdout)
        for content in (text, text.replace("\n", "\r\n"))
    )

    assert one == [each for each in other if each["rule"] != "dos-line-ends"]
    assert len(one) + 1 == len(other) == 3


def test_fix_follows_a_symlink(cli: Cli, write: Write, place: Path) -> None:
    write("real.sh", "set -x cat $0\n")
    (place / "job.sh").symlink_to("real.sh")

    cli("check", "--fix", place / "job.sh")

    assert (place / "job.sh").is_symlink()
    assert (place / "real.sh").read_text() == "set -x; cat $0\n"


@pytest.mark.parametrize("options", [(), ("--json",), ("--diff",)])
def test_a_secret_is_never_printed(cli: Cli, write: Write, options: tuple[str, ...]) -> None:
    file = write("job.sh", f"export HF_TOKEN={TOKEN}; set -x cat {TOKEN}\nexport HF_TOKEN='{TOKEN}'\n")

    answer = cli("check", "--all", *options, file)

    assert "token-in-script" in answer.stdout or options == ("--diff",)
    assert TOKEN not in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("line", "scheduler"), [("#PBS -l select=2", "PBS"), ("#BSUB -n 4", "LSF"), ("#FLUX: -N2", "flux")]
)
def test_directives_of_other_schedulers_are_reported(cli: Cli, write: Write, line: str, scheduler: str) -> None:
    answer = cli("check", write("job.sh", f"#!/bin/bash\n{line}\npython a.py\n"))

    assert f"job.sh: {scheduler} directives are not checked" in answer.stderr


@pytest.mark.parametrize(
    ("options", "filled"),
    [
        ("--time={time_limit} --nodes={nodes}", "{time_limit}"),
        ("--job-name={{ name }}", "{{ name }}"),
        ("--time=__WALLTIME__", "__WALLTIME__"),
    ],
)
def test_template_is_reported_and_not_checked(cli: Cli, write: Write, options: str, filled: str) -> None:
    answer = cli("check", write("job.sh", f"#!/bin/bash\n#SBATCH {options}\npkill -f x\n"))

    assert (answer.code, answer.stdout) == (0, "")
    assert answer.stderr.splitlines() == [
        f"warning: job.sh: not checked, because it is a template of another program ({filled})",
        "no file was checked",
    ]


def test_template_that_a_script_writes_is_reported_and_not_checked(cli: Cli, write: Write) -> None:
    template = "#!/bin/bash\n#SBATCH --time=__TIME__ --job-name=__NAME__\npkill -f x\n"
    script = f"#!/bin/bash\ncat >job.sh <<'END'\n{template}END\nsed -i s/__TIME__/9/ job.sh\nsbatch job.sh\n"

    answer = cli("check", write("submit.sh", script))

    assert (answer.code, answer.stdout) == (0, "")
    assert "submit.sh: a script that it writes is not checked, because it is a template (__TIME__)" in answer.stderr


def test_repetitive_long_lines_are_fast(cli: Cli, write: Write) -> None:
    """Each of these takes over a minute if a pattern backtracks."""
    long = ["#" * 50_000, "(" * 5_000, "$(" * 2_000, '"' * 50_001, "a=" * 20_000, "<" * 50_000, "--x=" * 20_000]

    answer = cli("check", write("job.sh", "#SBATCH -N 2\n" + "\n".join(long) + "\n"))

    assert answer.code in (0, 1)


def test_pre_commit_hook_is_valid() -> None:
    program = Path(sys.executable).parent / "pre-commit"

    command = [program, "validate-manifest", ROOT / ".pre-commit-hooks.yaml"]
    answer = subprocess.run(command, check=False, capture_output=True)

    assert answer.returncode == 0, answer.stdout
