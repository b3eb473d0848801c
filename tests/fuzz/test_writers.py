"""Test that hostile free text cannot end the comment or string that contains it, for every writer."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from uenvtool.activation import activate
from uenvtool.activation.formats import FORMATS
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
ALL_ENDS = "".join(f"{end}{MARK} " for end in ENDS)
"""Every way out of a comment or a text that some language has."""
HOSTILE = st.lists(st.sampled_from(ENDS) | st.text(max_size=6), min_size=1, max_size=6).map(
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


def job(system: str, runtime: str) -> Any:
    wanted = JobRequest(
        words=("train.py",), system=system, runtime=runtime, image="pytorch/v2.6.0:v1", account="g123", time="1:00"
    )
    return planned_job(wanted)[0]


def texts_of_job(plan: Any, words: str) -> Mapping[str, str]:
    return job_files(dataclasses.replace(plan, again=f"uenvtool job {words}"))


def activation_in(form: str) -> Callable[[Any, str], Mapping[str, str]]:
    return lambda plan, words: {form: activate.text(plan, form, f"uenvtool {words}")}


PLANS: dict[str, Callable[[], Any]] = {
    "activation": lambda: settings_for("clariden"),
    "environment": lambda: plan_environment(load_recipe("pytorch-2.6"), load_system("clariden"), "gh200"),
    "uenv": lambda: job("clariden", "uenv"),
    "ce": lambda: job("clariden", "ce"),
    "apptainer": lambda: job("olivia", "apptainer"),
    "container": lambda: planned_container(ContainerRequest(recipe="metatrain-alps6")),
}
WRITERS: dict[tuple[str, str], Callable[[Any, str], Mapping[str, str]]] = {
    **{("activation", form): activation_in(form) for form in FORMATS},
    ("environment", "Spack"): lambda plan, _: manifest.render(plan),
    **{
        ("environment", f"Stackinator {version}"): lambda plan, _, version=version: stackinator.render_recipe(
            plan, version
        )
        for version in STACKINATOR.values()
    },
    **{(runtime, "job"): texts_of_job for runtime in ("uenv", "ce", "apptainer")},
    ("container", "image"): lambda plan, words: image_of(plan, f"uenvtool container {words}").files,
}
"""Plan and form to what writes it. The files of Run:ai explain nothing: a script beside them does."""
plan_of = functools.cache(lambda name: PLANS[name]())


@pytest.mark.parametrize(("plan", "form"), WRITERS)
def test_free_text_is_refused_or_stays_text(plan: str, form: str) -> None:
    write = WRITERS[plan, form]

    @settings(max_examples=4)
    @given(words=HOSTILE)
    @example(words=ALL_ENDS)
    def is_harmless(words: str) -> None:
        for free in (FREE, FREE - {"description"}):  # a description is a label too, which refuses what it cannot hold
            with contextlib.suppress(BadInput):
                assert_harmless(write(poisoned(plan_of(plan), words, free=free), words))

    is_harmless()
    if form != "json":
        assert MARK in str(write(poisoned(plan_of(plan), MARK), "")), "else this would look at nothing"
