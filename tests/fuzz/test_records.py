"""Test damaged and hostile records, locks and metadata."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.fuzz.mutation import damaged_json
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.samples import sampled
from tests.support.trees import snapshot
from uenvtool.core.session import loaded_views


@pytest.mark.parametrize("seed", sampled(range(2, 7)))
def test_a_damaged_record_removes_nothing_outside_its_folder(cli: Cli, write: Write, seed: int) -> None:
    write("recipes/small/recipe.yaml", SMALL)
    write("mine/thesis.tex", "years")
    assert cli("build", "small", "-o", "out", "--no-concretize").code == 0
    record = Path("out/.uenvtool.json")
    good = record.read_text()
    for text in [
        *damaged_json(good, 5, seed),
        hostile(good, "../mine/thesis.tex"),
        hostile(good, str(Path("mine/thesis.tex").absolute())),
    ]:
        record.write_text(text, errors="replace")
        for options in (["--check"], ["--force"]):
            answer = cli("build", "small", "-o", "out", "--no-concretize", *options)
            assert_is_an_answer(answer, text)
        assert snapshot("mine") == {"thesis.tex": b"years"}, text
        record.write_text(good)
        assert cli("build", "small", "-o", "out", "--no-concretize", "--force").code == 0


def hostile(record: str, name: str) -> str:
    data = json.loads(record)
    data["files"] = {**data["files"], name: hashlib.sha256(b"years").hexdigest()}  # as it is: it may be removed
    return json.dumps(data)


@pytest.mark.parametrize("seed", sampled(range(3, 8)))
def test_a_damaged_lock_is_told(cli: Cli, write: Write, seed: int) -> None:
    lock = min(ROOT.glob("envs/**/spack.lock"), key=lambda path: path.stat().st_size).read_text()
    for text in damaged_json(lock, 4, seed):
        path = write("other/spack.lock", text.encode(errors="replace"))

        assert_is_an_answer(cli("diff", path, "pytorch-2.6"), text)


@pytest.mark.parametrize("seed", sampled(range(10)))
def test_damaged_metadata_of_a_loaded_uenv_is_passed_over_or_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    meta = tmp_path / "mount" / "meta"
    meta.mkdir(parents=True)
    view = {"activate": "/x", "description": "", "root": f"{tmp_path}/mount/env/v", "env": {"version": 1}}
    good = json.dumps({"name": "u", "mount": f"{tmp_path}/mount", "views": {"v": view}, "default-view": "v"})
    monkeypatch.setenv("UENV_VIEW", f"{tmp_path}/mount:u:v")
    for text in [
        *damaged_json(good, 5, seed),
        "[" * 20_000,
        "[]",
        "{}",
        "null",
        '{"views": []}',
        '{"views": {"v": 1}}',
    ]:
        (meta / "env.json").write_text(text, errors="replace")

        assert_is_an_answer(cli(), text)  # which says what is loaded
        assert all(isinstance(found.root, str) for found in loaded_views({"UENV_VIEW": f"{tmp_path}/mount:u:v"}))


RECORD = {
    "format": 1,
    "base": {
        "kind": "plain",
        "name": "x",
        "python": "/usr/bin/python3",
        "folders": ["/x"],
        "load": "",
        "version": "3.12",
    },
    "requests": [{"text": "small", "origin": "you"}],
    "overrides": ["torch"],
    "built_on_base": ["flash-attn"],
    "packages": [{"name": "small", "version": "1.0", "how": "installed", "asked_by": ["you"], "note": ""}],
}
ONCE = ["5", "[]", "null", "[" * 100_000, '{"a":' * 5_000, '{"format": "x"}', '{"format": 2}', "{", "\udcff"]
ONCE += [json.dumps({**RECORD, name: value}) for name in RECORD for value in (5, [5], {"a": 1}, None, "x\0")]
ONCE += [json.dumps({**RECORD, "requests": [{"text": "a b c", "origin": "x"}]})]
ONCE += [json.dumps({**RECORD, "base": {"python": 5, "folders": 7, "name": {"a": 1}}})]
ONCE += [json.dumps({**RECORD, "packages": [{"name": 5, "version": 7, "how": [], "asked_by": 3}]})]
"""Records that once gave something unexpected."""


@pytest.mark.parametrize("seed", sampled(range(10)))
def test_a_damaged_record_of_an_overlay_is_read_or_told(cli: Cli, place: Path, no_base: None, seed: int) -> None:
    record = place / "v" / ".uenvtool" / "uenvtool.json"
    record.parent.mkdir(parents=True)
    (place / "v" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    every = [["show", "v"], ["show", "v", "--json"], ["venv", "v", "--remove", "nosuch"]]
    for number, text in enumerate([*ONCE, *damaged_json(json.dumps(RECORD), 12, seed)]):
        record.write_bytes(text.encode(errors="surrogateescape" if text == "\udcff" else "replace"))

        answer = cli(*every[number % len(every)])  # all read it in the same place

        assert_is_an_answer(answer, text)
        if answer.code == 2:
            assert re.search(r"uenvtool\.json:\d+:\d+: ", answer.stderr), text
        assert "None" not in answer.stderr, text
