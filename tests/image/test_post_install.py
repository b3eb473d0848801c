"""Test a user's script and metadata in an image: the paths that the script can write, and the packed files."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.image.test_store import SITE, environment, filled_store, image_of
from uenvtool.core.errors import ToolFailed
from uenvtool.env.install import run_post_install
from uenvtool.env.installable import Installable

__all__ = ["environment"]
SCRIPT = """\
#!/bin/sh
mkdir bin
printf '#!/bin/sh\\necho mine\\n' > bin/mine
chmod +x bin/mine
ln -s bin/mine link
echo "$UENV_MOUNT $UENV_VIEW $UENV_LOCAL $(pwd)" > said
tried() { sh -c "echo x > $1" 2>/dev/null && echo "written: $1" >> said; }
tried "$UENV_MOUNT/SITE/six.py"
tried "$UENV_MOUNT/new"
tried "$HOME/new"
tried /tmp/uenvtool-test-post-install
rm -f /tmp/uenvtool-test-post-install
"""


def with_script(environment: Installable, script: str) -> Installable:
    return replace(environment, texts={**environment.texts, "post-install": script, "extra/license.txt": "ours\n"})


def run_or_skip(environment: Installable, store: Path) -> None:
    try:
        run_post_install(environment, store)
    except ToolFailed as error:
        if "a private mount namespace" in str(error):
            pytest.skip("needs a mount namespace, which this container forbids")
        raise


def test_it_writes_into_its_own_folder_alone_and_that_is_packed(environment: Installable, tmp_path: Path) -> None:
    store = filled_store(tmp_path / "store", environment, when=1.0)
    scripted = with_script(environment, SCRIPT.replace("SITE", SITE))
    (store / "local").mkdir()
    (store / "local" / "of-an-earlier-run").write_text("x")

    run_or_skip(scripted, store)
    image = image_of(store, scripted, tmp_path / "with.squashfs")
    without = image_of(store, environment, tmp_path / "without.squashfs")

    mount = environment.mount
    said = (store / "local" / "said").read_text().splitlines()
    assert said == [
        f"{mount} {mount}/env/default {mount}/local {mount}/local",
        "written: /tmp/uenvtool-test-post-install",
    ]
    words = ["unsquashfs", "-no-progress", "-quiet", "-d", tmp_path / "unpacked", image]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    unpacked = tmp_path / "unpacked"
    assert sorted(os.listdir(unpacked / "local")) == ["bin", "link", "said"]
    assert subprocess.run([unpacked / "local" / "link"], capture_output=True, text=True, check=True).stdout == "mine\n"
    assert (unpacked / "meta" / "extra" / "license.txt").read_text() == "ours\n"
    assert (unpacked / "meta" / "recipe" / "post-install").read_text() == scripted.texts["post-install"]
    view = json.loads((unpacked / "meta" / "env.json").read_text())["views"]["default"]
    assert view["env"]["values"]["list"]["PATH"][-1]["value"][-1] == f"{mount}/local/bin"
    listed = subprocess.run(["unsquashfs", "-l", without], capture_output=True, text=True, check=True).stdout
    assert "local" not in listed


def test_one_that_fails_says_its_last_words(environment: Installable, tmp_path: Path) -> None:
    store = filled_store(tmp_path / "store", environment, when=1.0)

    with pytest.raises(ToolFailed) as raised:
        run_or_skip(with_script(environment, "#!/bin/sh\necho the license server is away\nexit 3\n"), store)

    assert "(exit code 3)\n  the license server is away" in str(raised.value)
    assert "post-install.log" in str(raised.value)


def test_a_script_that_a_recipe_names_is_no_input_of_an_image(cli: Cli, place: Path, write: Write) -> None:
    write("recipes/mine/setup.sh", f"#!/bin/sh\ntouch {place}/ran\n")
    write("recipes/mine/recipe.yaml", "extends: hello\ndescription: Mine.\ndeployment: {post_install: setup.sh}\n")

    built = cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", "mine")

    assert built.code == 0, built.stderr
    assert "setup" not in "".join(path.name for path in Path("mine").rglob("*"))
    assert not (place / "ran").exists()
