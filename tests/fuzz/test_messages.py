"""Every message to bad input of any kind names the thing, its place and a way out: 200 inputs, generated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT, SMALL, Answer, Cli, Write
from tests.fuzz.mutation import damaged_json, damaged_lines
from tests.fuzz.test_records import RECORD
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.needs import need

UGLY = re.compile(
    r"\bNone\b|(?<![\w/])b'|Traceback|\[Errno|object is not|<class|Error:|unexpected [A-Z]"
    r"|nothing said|did you mean '(\w)'\?"
)
"""What a programmer would understand, and a user not."""
KNOWLEDGE = {
    "recipes/mine/recipe.yaml": "recipes/hello/recipe.yaml",
    "systems/mine.yaml": "knowledge/systems/rcp.yaml",
    "tuning/mine.yaml": "knowledge/tuning/roce.yaml",
    "runtimes/mine.yaml": "knowledge/runtimes/apptainer.yaml",
    "rules/mine.yaml": "knowledge/rules/slurm.yaml",
}


def bad_knowledge(write: Write) -> Iterator[tuple[list[str], str]]:
    """Files of knowledge with lines damaged; the words that read them, and the place that is named."""
    for name, good in KNOWLEDGE.items():
        for number, text in enumerate(damaged_lines((ROOT / good).read_text(), 30, seed=5)):
            place = name.replace("mine", f"mine{number}")
            file = write(place, text.encode(errors="surrogatepass"))
            yield ["validate", place], place
            file.unlink()  # the tunings here are read together


def bad_records(write: Write) -> Iterator[tuple[list[str], str]]:
    """Records of overlays and locks with a value of another kind."""
    write("v/pyvenv.cfg", "home = /usr/bin\n")
    for number, text in enumerate(damaged_json(json.dumps(RECORD), 60, seed=6)):
        write(f"v{number}/pyvenv.cfg", "home = /usr/bin\n")
        write(f"v{number}/.uenvtool/uenvtool.json", text.encode(errors="replace"))
        yield ["show", f"v{number}"], f"v{number}/.uenvtool/uenvtool.json"
    lock = min(ROOT.glob("envs/**/spack.lock"), key=lambda path: path.stat().st_size).read_text()
    for number, text in enumerate(damaged_json(lock, 15, seed=7)):
        write(f"lock{number}/spack.lock", text.encode(errors="replace"))
        yield ["diff", f"lock{number}/spack.lock", "hello"], f"lock{number}/spack.lock"


REQUIREMENTS = ["numpy=1", "two words", "-r gone.txt", "-e gone", "--frobnicate", "./gone.whl", "a\0b"]
REQUIREMENTS += [
    "x --hash",
    ">=2",
    "x[",
    "x @",
    "-r /dev/zero",
    "-c gone.txt",
    "x ; y",
    "x==1 --hash=sha256:0",
    "x==1 --hash=md5:0",
]


def bad_requirements(write: Write) -> Iterator[tuple[list[str], str]]:
    for number, line in enumerate(REQUIREMENTS):
        write(f"r{number}.txt", f"small\n{line}\n")
        yield ["venv", "new", "--no-base", "-r", f"r{number}.txt"], f"r{number}.txt:2:1"


WORDS = """
show nosuch | show helo | build pytorh | build hello --system claridn | activate --system claridn | explain NCLC_NET
activate --system clariden --shell bsh | activate --system clariden --uarch gh20 | build hello --uarch x | schema recip
validate gone.yaml | validate . | new recipe a/b | new system hello/x | edit hello --remove zlibb | edit nosuch --add x
venv new numpy=1 | venv new -r gone.txt | venv new --base /gone/python | show gone
venv new --from gone.toml | venv new small --mount tools | venv a:b small | venv new --override 'a b' | image show gone
image verify plain.txt | image sbom plain.txt | check gone.sh | check plain.bin
diff hello gone | diff gone hello | list nosuch | nosuch | explain | build hello -o plain.txt
activate -o plain.txt --write
venv new --squash image.img | venv new -e . | venv plain.txt small | venv new small==1=2 | build | show ''
"""


def bad_words(write: Write) -> Iterator[tuple[list[str], str]]:
    """Command lines; the place is the word that is wrong."""
    import shlex

    write("plain.txt", "text\n")
    write("plain.bin", b"\0\1")
    for line in WORDS.strip().splitlines():
        for case in line.split(" | "):
            yield shlex.split(case), ""


def messages(cli: Cli, write: Write) -> Iterator[tuple[list[str], str, Answer]]:
    write("recipes/small/recipe.yaml", SMALL)
    for source in (bad_knowledge, bad_records, bad_requirements, bad_words):
        for words, place in source(write):
            answer = cli(*words)
            if answer.code == 2:
                yield words, place, answer


@pytest.mark.slow
def test_each_message_names_the_thing_the_place_and_the_way_out(cli: Cli, write: Write, no_base: None) -> None:
    need("unsquashfs")
    count, wrong = 0, []
    for words, place, answer in messages(cli, write):
        count += 1
        assert_is_an_answer(answer, words, codes=(2,))
        first = answer.stderr.partition("hint: ")[0]
        if "hint: " not in answer.stderr:
            wrong.append((words, "no way out", answer.stderr))
        elif place and place not in answer.stderr:
            wrong.append((words, "no place", answer.stderr))
        elif UGLY.search(first):
            wrong.append((words, UGLY.search(first)[0], answer.stderr))  # type: ignore[index]

    assert wrong == []
    assert count >= 200
