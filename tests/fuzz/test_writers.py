"""Free text cannot end the comment or the text that it is written into: every writer, with every free text hostile."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from uenvtool.activation import activate
from uenvtool.activation.formats import FORMATS
from uenvtool.activation.shells import shells
from uenvtool.container.image import image_of
from uenvtool.container.plan import planned as planned_container
from uenvtool.container.request import ContainerRequest
from uenvtool.core.errors import BadInput
from uenvtool.env import manifest, stackinator
from uenvtool.env.plan import plan_environment
from uenvtool.env.request import STACKINATOR
from uenvtool.job.make import job_files
from uenvtool.job.make import planned as planned_job
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.settings import settings_for
from uenvtool.knowledge.system import load_system

FREE = frozenset({"description", "reason", "title", "note", "cost", "limits"})
"""The names of fields that hold free text."""
MARK = "touch-ran"
LINE_END = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
ENDS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "*/", "-->", "'\n", '"\n', "\\\n", "'''\n"]
ENDS += ["\nEOF\n", "$(", "`", "'; ", '"; ', "]]\n", "}\n", "\0\n", "\x1b]0;", "%>", "\n---\n", "\n'''\n"]
HOSTILE = st.lists(st.one_of(st.sampled_from(ENDS), st.text(max_size=6)), min_size=1, max_size=6).map(
    lambda parts: "".join(f"{part}{MARK} " for part in parts)
)


def poisoned(value: Any, words: str, name: str = "", free: frozenset[str] = FREE) -> Any:
    """A plan in which every free text, however deep, has these words behind it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {key: poisoned(item, words, key, free) for key, item in given.items()}
        new = {key: item for key, item in changed.items() if item is not given[key]}
        return dataclasses.replace(value, **new) if new else value
    if isinstance(value, str):
        return f"{value} {words}" if name in free else value
    if isinstance(value, tuple):
        items = tuple(poisoned(item, words, name, free) for item in value)
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    if isinstance(value, Mapping):
        pairs = {key: poisoned(item, words, name, free) for key, item in value.items()}
        return pairs if any(pairs[key] is not value[key] for key in value) else value
    return value


def assert_harmless(files: Mapping[str, str]) -> None:
    """The words stand in comments and texts alone: no line begins with them, and YAML and TOML have their names."""
    for name, text in files.items():
        if name.endswith("json"):
            assert MARK not in str(list(names_of(json.loads(text)))), name
            continue
        ends = re.compile("[\n\r]") if name == "Containerfile" else LINE_END  # a label holds the others as they are
        for line in ends.split(text):
            assert not line.lstrip().startswith(MARK), (name, line)
        if name.endswith((".yaml", ".yml")):
            assert MARK not in str([list(names_of(part)) for part in yaml.safe_load_all(text)]), name
        if name.endswith((".toml", "edf")):
            assert MARK not in str(list(names_of(tomlkit.parse(text).unwrap()))), name


def names_of(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from names_of(value)
    elif isinstance(data, Sequence) and not isinstance(data, str):
        for value in data:
            yield from names_of(value)


ALL_ENDS = "".join(f"{end}{MARK} " for end in ENDS)
"""Every way out of a comment or a text that some language has."""


def hostile_words(test: Any) -> Any:
    return settings(max_examples=4)(given(words=HOSTILE)(example(words=ALL_ENDS)(test)))


@pytest.fixture(scope="module")
def activation() -> Any:
    return settings_for("clariden")


@hostile_words
def test_activation_scripts_and_files_of_variables(activation: Any, words: str) -> None:
    hostile = poisoned(activation, words)
    for shell in (*shells(), *FORMATS):
        with contextlib.suppress(BadInput):  # a form that cannot hold them refuses them
            assert_harmless({shell: activate.text(hostile, shell, f"uenvtool {words}")})


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return plan_environment(load_recipe("pytorch-2.6"), load_system("clariden"), "gh200")


@hostile_words
def test_environments_of_spack_and_stackinator(environment: Any, words: str) -> None:
    hostile = poisoned(environment, words)

    with contextlib.suppress(BadInput):
        assert_harmless(manifest.render(hostile))
    for version in STACKINATOR.values():
        with contextlib.suppress(BadInput):
            assert_harmless(stackinator.render_recipe(hostile, version))


@pytest.fixture(
    scope="module", params=[("clariden", "uenv"), ("clariden", "ce"), ("olivia", "apptainer"), ("rcp", "runai")]
)
def job(request: pytest.FixtureRequest) -> Any:
    system, runtime = request.param
    of_slurm = {} if runtime == "runai" else {"account": "g123", "time": "1:00"}
    wanted = JobRequest(words=("train.py",), system=system, runtime=runtime, image="pytorch/v2.6.0:v1", **of_slurm)
    return planned_job(wanted).plan


@hostile_words
def test_jobs_and_edf(job: Any, words: str) -> None:
    hostile = poisoned(job, words)
    hostile = dataclasses.replace(hostile, again=f"uenvtool job {words}")

    with contextlib.suppress(BadInput):
        assert_harmless(job_files(hostile))


@pytest.fixture(scope="module")
def container() -> Any:
    recipe = sorted(path.parent.name for path in (ROOT / "recipes").glob("*/container.yaml"))[0]
    return planned_container(ContainerRequest(recipe=recipe))


@hostile_words
def test_container_files(container: Any, words: str) -> None:
    for free in (FREE, FREE - {"description"}):  # a description is a label too, which refuses what it cannot hold
        with contextlib.suppress(BadInput):
            assert_harmless(image_of(poisoned(container, words, free=free), f"uenvtool container {words}").files)


def test_the_words_do_reach_the_writers(activation: Any, environment: Any, job: Any, container: Any) -> None:
    """Else the tests above would look at nothing."""
    found = {
        "activation": activate.text(poisoned(activation, MARK), "bash", ""),
        "environment": str(manifest.render(poisoned(environment, MARK))),
        "stackinator": str(stackinator.render_recipe(poisoned(environment, MARK), 2)),
        "job": str(job_files(poisoned(job, MARK))),
        "container": str(image_of(poisoned(container, MARK), "").files),
    }

    if job.runtime.name == "runai":
        del found["job"]  # its files explain nothing: a script beside them does

    assert [name for name, text in found.items() if MARK not in text] == []
