"""Follow docs/architecture.md: every file that it names exists, and the additions that it describes need no Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def instructions() -> dict[str, tuple[str, str, str]]:
    """Map each addition to the cells of its row: the file to copy, the place for the copy, and the commands."""
    table = PAGE.split("| to add |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {name: (copy, to, then) for name, copy, to, then in rows}


def commands(then: str, name: str) -> Iterator[list[str]]:
    """Yield the commands of a row, with the name filled in."""
    for command in re.findall(r"`(uenvtool [^`]+)`", then):
        yield command.replace("NAME", name).replace("RECIPE", "hello").split()[1:]


def copied(what: str, name: str) -> Path:
    """Copy the file of a row to the place that the row names, in the current directory."""
    copy, to, _ = instructions()[what]
    source, target = re.findall(r"`([^`]+/[^`]+)`", copy)[0], re.findall(r"`([^`]+)`", to)[0].replace("NAME", name)
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / source, path)
    return path


def follow(cli: Cli, what: str, *more: str, **filled: str) -> None:
    """Run the commands of a row. more: arguments for `build`. filled: the values of placeholders in capitals."""
    for command in commands(instructions()[what][2], "mine"):
        words = [*(filled.get(word, word) for word in command), *(more if command[0] == "build" else ())]
        answer = cli(*words)
        assert answer.code == 0, (words, answer.stderr)


def system(text: str) -> Path:
    """Write a system."""
    path = Path("systems/mine.yaml")
    path.parent.mkdir()
    path.write_text(f"description: mine\n{text}")
    return path


def test_every_file_of_the_page_exists() -> None:
    packages, rest = PAGE.split("## The packages")[1].split("\n\n## Three call paths")
    named = {
        (item.split("`")[1], name)
        for item in re.split(r"^- ", packages, flags=re.MULTILINE)[1:]
        for name in re.findall(r"`(\w+(?:\.py|/))`", item)[1:]
        if not (ROOT / "uenvtool" / name).is_dir()
    }
    assert len(named) > 30
    assert [name for package, name in named if not (ROOT / "uenvtool" / package / name).exists()] == []

    paths = re.findall(r"`((?!rules/|findings/)[\w-]+/[\w./-]+\.(?:yaml|py|md))`", rest)
    elsewhere = [path for path in paths if "NAME" not in path]
    assert len(elsewhere) > 40
    assert [name for name in elsewhere if not any((top / name).is_file() for top in (ROOT, ROOT / "uenvtool"))] == []


def test_a_new_recipe_and_a_version_of_a_package_are_one_file_each(cli: Cli) -> None:
    copied("a recipe", "mine")
    to = instructions()["a version of a package"][1].strip("`").replace("PACKAGE", "py_psutil")
    addition = Path(to.replace("NAME", "mine"))
    addition.parent.mkdir(parents=True)
    shutil.copy(ROOT / to.replace("NAME", "pytorch-2.6"), addition)

    for what in ("a recipe", "a version of a package"):
        follow(cli, what, "--no-concretize", "-o", "env", "--force")
    assert "mine" in cli("list", "recipes").stdout
    assert addition.read_bytes() == next(Path("env").rglob("py_psutil/package.py")).read_bytes()


def test_a_new_system_is_one_file(cli: Cli) -> None:
    path = copied("a system", "mine")
    path.write_text(re.sub(r"recognise:\n(- .*\n)+", "", path.read_text()))

    follow(cli, "a system", "--uarch", "a100")
    assert "mine" in cli("list", "systems").stdout
    assert "x86_64_v3" in cli("build", "hello", "--system", "mine", "--uarch", "a100", "--dry-run").stdout


def test_a_new_variable_is_an_entry_of_a_file_that_a_system_names(cli: Cli) -> None:
    path = copied("a variable", "mine")
    path.write_text(path.read_text().replace("NCCL_NET:", "MY_VARIABLE:"))
    system("extends: rcp\nfabric: infiniband\ntuning: [mine]\n")

    follow(cli, "a variable", VARIABLE="MY_VARIABLE")
    assert "MY_VARIABLE" in cli("activate", "--system", "mine", "--uarch", "a100").stdout


def test_a_new_runtime_is_one_file(cli: Cli) -> None:
    copied("a runtime", "mine")
    mine = system("extends: olivia\nruntimes: [mine]\njobs: {runtimes: {mine: {image: image.sif}}}\n")

    follow(cli, "a runtime", SYSTEM="mine")
    assert cli("validate", mine).code == 0
    job = cli("job", "--system", "mine", "--runtime", "mine", "--account", "a", "--", "true").stdout
    assert 'apptainer exec --nv "${binds[@]/#/--bind=}" "$image" bash -c' in job


def test_a_new_image_and_a_new_component_are_one_file_each(cli: Cli) -> None:
    image = copied("an image", "mine")
    copied("a component", "mine")
    image.write_text(image.read_text() + "components: {gdrcopy: 2.5.1, xpmem: 3bcab55, mine: 1.20.1}\n")

    for what in ("an image", "a component"):
        follow(cli, what)
    assert "FROM toolchain AS build-mine" in Path("containers/mine/Containerfile").read_text()


def test_words_of_a_program_s_own_say_that_its_run_went_on_and_hide_no_others(cli: Cli) -> None:
    Path("findings").mkdir()
    Path("job.out").write_text("cxil_map: write error\n" + "Tour 7 de 9\n" * 60)
    before = cli("doctor", "--log", "job.out")
    for name in ("mine", "words"):  # also if a user's file replaces the shipped file
        Path(f"findings/{name}.yaml").write_text("description: Ours.\nwords:\n  progress: ['^Tour \\d', 'pas \\d']\n")
        answer = cli("doctor", "--log", "job.out")

        assert cli("validate", f"findings/{name}.yaml").code == 0
        assert (before.code, answer.code) == (1, 0)
        assert "went-on" in answer.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the project, so that a test can change it as the page describes."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "tests", "envs", "containers", "docs")
    return Path(shutil.copytree(ROOT, tmp_path / "copy", ignore=left_out))


def run(project: Path, *words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the tool in a directory. In a copy of the project, run that copy."""
    command = [sys.executable, "-m", "uenvtool", *words]
    done = subprocess.run(command, cwd=project, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_a_new_launcher_is_one_file(place: Path) -> None:
    path = copied("a launcher", "mine")
    path.write_text(re.sub(r"modules: .*\n", "", path.read_text()).replace("commands: [composer]", "commands: [mine]"))
    [check, job] = commands(instructions()["a launcher"][2].replace("SYSTEM", "clariden"), "mine")

    run(place, *check)
    words = [word.replace("COMMAND", "mine") for word in job]
    assert "  mine --nproc=" in run(place, words[0], "--image", "u", *words[1:]).stdout


def test_a_new_command_is_a_function_and_a_row(project: Path) -> None:
    arguments, table = project / "uenvtool" / "knowledge" / "cli.py", project / "uenvtool" / "cli.py"
    text = arguments.read_text(encoding="utf-8")
    function = text[text.index("@app.command()\ndef schema(") :].split("\n\n\n")[0].replace("def schema(", "def look(")
    arguments.write_text(f"{text}\n\n{function}\n", encoding="utf-8")
    row = re.search(r'\n( +"schema": Command.*)', table.read_text(encoding="utf-8"))
    assert row
    new = row[1].replace('"schema"', '"look"').replace("Print the", "Look at the")
    table.write_text(table.read_text(encoding="utf-8").replace(row[1], f"{row[1]}\n{new}"), encoding="utf-8")

    assert re.search(r"look +Look at the JSON Schema", run(project, "--help").stdout)
    assert run(project, "look", "recipe").stdout == run(project, "schema", "recipe").stdout


def test_a_new_check_of_doctor_is_a_function_and_an_entry(project: Path) -> None:
    doctor, findings = project / "uenvtool" / "doctor", project / "knowledge" / "findings" / "shell.yaml"
    machine, shell = doctor / "machine.py", doctor / "shell.py"
    head = "def wrong_process(snapshot: Snapshot) -> Iterator[Fault]:"
    own = f'{head}    if "MINE" in snapshot.environ:\n        yield Fault("mine-is-set", "MINE")\n'
    text = machine.read_text(encoding="utf-8")
    assert head in text
    machine.write_text(text + "\n\n" + own.replace("process", "mine").replace(":    if", ":\n    if"))
    table = shell.read_text(encoding="utf-8")
    shell.write_text(table.replace("machine.wrong_process,", "machine.wrong_process, machine.wrong_mine,"))
    text = findings.read_text(encoding="utf-8")
    entry = text[text.index("  variable-needs:") : text.index("  hook-missing:")]
    findings.write_text(text + entry.replace("variable-needs", "mine-is-set"), encoding="utf-8")

    run(project, "validate", "knowledge/findings/shell.yaml")
    assert "MINE" in run(project, "doctor", code=1, MINE="1").stdout


KIND = """
QUOTA = Kind(
    name="quota", directory="quotas", pattern="*.yaml", reader="uenvtool.knowledge.quota:load_quota", heading="limits"
)
KINDS = (*KINDS, QUOTA)
LISTED = (*LISTED, QUOTA)
"""
QUOTA = '''"""Quotas."""

from dataclasses import dataclass

from uenvtool.knowledge.bind import Binder
from uenvtool.knowledge.kinds import QUOTA
from uenvtool.knowledge.locate import locate


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A quota."""

    description: str
    limits: tuple[str, ...]


def load_quota(name: str) -> Quota:
    """Return the quota of that name."""
    return Binder.of(locate(QUOTA, name), QUOTA).whole(Quota)
'''


def test_a_new_kind_of_knowledge_is_a_row_a_schema_and_a_dataclass(project: Path) -> None:
    package = project / "uenvtool"
    with (package / "knowledge" / "kinds.py").open("a") as table:
        table.write(KIND)
    (package / "knowledge" / "quota.py").write_text(QUOTA)
    fields = {"description": {"type": "string"}, "limits": {"type": "array"}}
    schema = {"type": "object", "required": ["limits"], "additionalProperties": False, "properties": fields}
    (package / "schemas" / "quota.json").write_text(json.dumps(schema))
    (project / "quotas").mkdir()
    (project / "quotas" / "files.yaml").write_text("description: Files.\nlimits: [1000000]\n")
    (project / "quotas" / "wrong.yaml").write_text("description: Wrong.\nlimit: []\n")

    run(project, "validate", "quotas/files.yaml")
    assert re.search(r"files +1000000 +Files", run(project, "list", "quotas").stdout)
    assert "1000000" in run(project, "show", "quotas/files.yaml").stdout
    assert "quotas/wrong.yaml:2:1: unknown key 'limit'" in run(project, "validate", "quotas/wrong.yaml", code=2).stderr
