"""Test the Containerfile in BuildKit, which builds independent stages in parallel and caches them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.real.buildkit import BuildKit, Meeting, meeting
from tests.real.test_container_build import LIBRARY, OTHER, RECIPE, Project
from tests.support.images import archive, base_image, storage

pytestmark = [pytest.mark.real, pytest.mark.build]
WAIT = """\
\t@bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; echo {name} >&3; read -r met <&3; echo "{name}: $$met"'
"""
"""A line of a Makefile that waits for the other stage."""


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[BuildKit]:
    folder = storage(tmp_path / "docker")
    made = BuildKit(folder)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place_to_meet() -> Iterator[Meeting]:
    with meeting() as found:
        yield found


def waiting(files: dict[str, str], name: str, port: int) -> dict[str, str]:
    """Return the sources of a component that waits for another one during its build."""
    ran = f"\t@echo 'ran: {name}'\n"
    assert ran in files["Makefile"]
    return {**files, "Makefile": files["Makefile"].replace(ran, ran + WAIT.format(port=port, name=name))}


class Sources(Project):
    """The same project with its sources in the base, because BuildKit cannot mount them."""

    def __init__(self, folder: Path, cli: Cli, port: int) -> None:
        super().__init__(folder, cli)
        library = waiting(LIBRARY, "shout", port)
        self.component("shout", library, installs='"/usr/lib/libshout.so*"')
        self.component("other", waiting(OTHER, "other", port), installs="/usr/share/other")
        louder = {**library, "shout.c": 'const char *shouted(void) { return "HELLO!"; }\n'}
        newer = archive(self.sources, "shout-1.1", louder)
        file = folder / "components/shout.yaml"
        file.write_text(file.read_text().replace("needs:", f"  1.1: {{sha256: {newer}, source: this test}}\nneeds:"))

    def base(self, docker: BuildKit) -> None:
        """Build the base."""
        base_image(docker)
        (self.folder / "Containerfile").write_text("FROM localhost/uenvtool-base:1\nCOPY sources /sources\n")
        assert docker.build(self.folder, "localhost/with-sources:1").code == 0

    def recipe(self, shout: str) -> Path:
        """Write the recipe with a version of shout, and return the directory to build."""
        text = RECIPE.replace("localhost/uenvtool-base", "localhost/with-sources").replace(
            "shout: 1.0", f"shout: {shout}"
        )
        (self.folder / "recipes/greeting/container.yaml").write_text(text)
        file = self.write() / "Containerfile"
        # This line would be fetched from a registry; the daemon's own reader knows all that is in the file.
        file.write_text(re.sub(r"^# syntax=.*\n", "", file.read_text()))
        return file.parent


def test_stages_are_built_at_the_same_time_and_only_again_if_they_changed(
    docker: BuildKit, place_to_meet: Meeting, place: Path, cli: Cli
) -> None:
    project = Sources(place, cli, place_to_meet.port)
    project.base(docker)
    place_to_meet.expect(2)

    first = docker.build(project.recipe("1.0"), "greeting")
    second = docker.build(project.recipe("1.0"), "greeting")

    assert first.code == 0, first.output
    assert sorted(first.ran) == ["greet", "other", "shout"]
    assert place_to_meet.seen == [("other", "met"), ("shout", "met")], first.output
    assert second.code == 0, second.output
    assert second.ran == []
    assert docker.run("greeting", "greet").stdout == "HELLO\n"
    settings = docker.settings("greeting")
    assert settings["Labels"]["uenvtool.component.shout"] == "1.0"
    assert "NCCL_NET=AWS Libfabric" in settings["Env"]

    place_to_meet.expect(1)
    third = docker.build(project.recipe("1.1"), "greeting")

    assert third.code == 0, third.output
    assert sorted(third.ran) == ["greet", "shout"], "what does not need it stays"
    assert docker.run("greeting", "greet").stdout == "HELLO!\n"
