"""Test the limits of CPU time and depth for files that others wrote."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from uenvtool.core import limits
from uenvtool.core.errors import BadInput
from uenvtool.core.limits import limited
from uenvtool.doctor.dumps import read_dumps
from uenvtool.venv.record import FORMAT, parse_record

NESTED_KEY = b"\x80\x02})" + b"2\x86" * 60 + b"Ns."
"""A pickle with a dict whose key is 60 nested tuples, each twice in the next: its hash takes 2^60 steps."""


def spin() -> None:
    while True:
        pass


def deep(depth: int) -> int:
    return deep(depth + 1)


def test_a_reader_that_takes_too_long_is_stopped_and_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CPU_SECONDS", 0.2)

    with (
        pytest.raises(BadInput, match=r"^a\.toml:1:1: reading the file takes more than 0\.2 s of CPU time"),
        limited("a.toml"),
        limited("inner"),
    ):
        spin()


def test_a_file_that_is_nested_too_deeply_is_named() -> None:
    with pytest.raises(BadInput, match=r"^a\.toml:1:1: the file is nested too deeply"), limited("a.toml"):
        deep(0)


def test_a_hostile_dump_is_named_and_the_other_dumps_are_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CPU_SECONDS", 1)
    dumps = [place / f"dump_{rank}" for rank in range(3)]
    for dump in dumps:
        dump.write_bytes(pickle.dumps({"entries": [], "pg_config": {}}, protocol=2))
    dumps[1].write_bytes(NESTED_KEY)

    read, messages, _ = read_dumps(dumps)

    assert [dump.rank for dump in read] == [0, 2]
    assert messages == ["dump_1: reading it takes more than 1 s of CPU time"]


def test_a_record_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CPU_SECONDS", 0.1)
    lists = {name: [] for name in ("packages", "overrides", "built_on_base", "sources")}
    requests = [{"text": "small==1.0", "origin": "command line"}] * 20_000  # each is searched for secrets
    record = {"format": FORMAT, "base": {}, "made_from": {}, **lists, "requests": requests}

    with pytest.raises(BadInput, match=r"^v/record:1:1: reading the file takes more than 0\.1 s of CPU time"):
        parse_record(json.dumps(record), "v/record")


def test_a_long_chain_of_requirements_files_is_refused(cli: Cli, write: Write, no_base: None) -> None:
    for number in range(2000):
        write(f"r{number}.txt", f"-r r{number + 1}.txt\n")
    write("r2000.txt", "small\n")

    answer = cli("venv", "v", "-r", "r0.txt", "--no-base", "--dry-run")

    assert answer.code == 2
    assert "r50.txt:1:1: 'r51.txt' is nested more than 50 files deep" in answer.stderr


REPEATED = {
    "same-variable.sh": ("#!/bin/bash\n", "export A=$A:b\n"),
    "continued.sh": ("#!/bin/bash\necho ", "word \\\n"),
    "launches.sh": ("#!/bin/bash\n#SBATCH --nodes=2\n", "srun torchrun --nnodes=2 train.py\n"),
    "directories.sh": ("#!/bin/bash\n", "#SBATCH --output=logs{0}/%j.out\n"),
    "functions.sh": ("#!/bin/bash\n#SBATCH -N1\nf() { srun python t.py & }\n", "f{0} &\n"),
    "tokens.sh": ("#!/bin/bash\n", "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx{0:010d}\n"),
    "scripts.sh": ("#!/bin/bash\n", "cat <<E{0} >j.sh\n#SBATCH -N1\n"),
    "variables.toml": ('image = "x"\n[env]\n', 'V{0} = "x"\n'),
    "dotted.toml": ('image = "x"\n', 'a.b.c{0} = "x"\n'),
}


@pytest.mark.parametrize("name", REPEATED)
def test_check_takes_the_same_time_for_each_line(
    cli: Cli, write: Write, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, line = REPEATED[name]
    write(name, first + "".join(line.format(number) for number in range(4000)) + "\n")
    monkeypatch.setattr(limits, "CPU_SECONDS", 4)  # a quadratic rule needs several times as long

    assert cli("check", name).code in (0, 1)
