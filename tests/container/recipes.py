"""Small components and recipes for tests, and functions that inspect a Containerfile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import Write
from tests.support.needs import skip_without

SHA256 = "1" * 64
BASE = {"image": "example.org/base", "tag": "1", "unpinned": "a test"}


def component(**changes: Any) -> str:
    """A component as its file has it. JSON is YAML."""
    values: dict[str, Any] = {
        "description": "A part.",
        "url": "https://example.org/part-${version}.tar.gz",
        "versions": {"1.0": {"sha256": SHA256, "source": "a test"}},
        "build": [["make", "install", "DESTDIR=${out}"]],
        "installs": [],
    }
    return as_yaml({**values, **changes})


def as_yaml(values: Mapping[str, Any]) -> str:
    """Values as JSON, which YAML reads too but for its escapes of characters beyond U+FFFF."""
    text = json.dumps(values, ensure_ascii=False)
    return "".join(character if character.isascii() else f"\\U{ord(character):08x}" for character in text)


def recipe(**changes: Any) -> str:
    """A container recipe as its file has it."""
    return as_yaml({"description": "An image.", "home": "clariden", "base": BASE, **changes})


def project(write: Write, components: Mapping[str, Mapping[str, Any]], **changes: Any) -> Path:
    """Write components and a recipe `mine` that takes all of them; the path of the recipe."""
    for name, values in components.items():
        write(f"components/{name}.yaml", component(**{"installs": [f"/usr/lib/{name}"], **values}))
    return write("recipes/mine/container.yaml", recipe(components=dict.fromkeys(components, "1.0"), **changes))


def instructions(text: str, tmp_path: Path) -> list[tuple[str, str]]:
    """The instructions of a Containerfile and their values, as another reader of such files sees them."""
    try:
        from dockerfile_parse import DockerfileParser
    except ImportError:
        skip_without("dockerfile-parse", "pip install dockerfile-parse")
    path = tmp_path / "read" / "Dockerfile"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    structure = DockerfileParser(str(path)).structure
    return [(entry["instruction"], entry["value"]) for entry in structure if entry["instruction"] != "COMMENT"]


def started(text: str, tmp_path: Path) -> list[list[str]]:
    """The programs that the steps of a Containerfile start without a shell, word by word."""
    values = [value for instruction, value in instructions(text, tmp_path) if instruction == "RUN"]
    lists = [re.sub(r"^--mount=\S+ ", "", value) for value in values]
    return [json.loads(value) for value in lists if value.startswith("[")]


def stages(text: str) -> dict[str, str]:
    """The text of each stage by its name."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[2::3], parts[3::3], strict=True))
