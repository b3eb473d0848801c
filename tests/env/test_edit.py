"""Test that `uenvtool new` and `uenvtool edit` change only the requested parts of a file."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, SMALL, Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.env.edit import edited
from uenvtool.env.plan import plan_environment
from uenvtool.env.request import Changes
from uenvtool.env.resolve import node_answers
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.system import load_system

COMMENTED = """\
# What this is for.

description:   "A 'small' recipe."   # a remark
home: 'clariden'
uarchs: [ any,  ]
spack: {url: https://github.com/spack/spack.git, tag: v1.1.0}
repos: {builtin: {url: https://github.com/spack/spack-packages.git, tag: v2026.06.0}}
groups:
    all:
        # the files
        specs:
          - zlib-ng      # fast

          -   {spec: "hdf5@1.14 +mpi", reason: files}
          - spec: zstd
            reason: >-
              small
              and fast
          # nothing more
view: {link: all}

# the end
"""


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that are only in the one or only in the other text."""
    found = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return [line[2:] for line in found if line[0] == "-"], [line[2:] for line in found if line[0] == "+"]


@pytest.mark.parametrize(
    ("changes", "removed", "added"),
    [
        (Changes(add=["pigz"]), [], ["          - pigz\n"]),
        (Changes(add=["pigz@2"], reason="a: b"), [], ["          - {spec: pigz@2, reason: 'a: b'}\n"]),
        (
            Changes(add=["zlib-ng@2.2"]),
            ["          - zlib-ng      # fast\n"],
            ["          - zlib-ng@2.2      # fast\n"],
        ),
        (
            Changes(add=["hdf5@1.12"]),
            ['          -   {spec: "hdf5@1.14 +mpi", reason: files}\n'],
            ['          -   {spec: "hdf5@1.12", reason: files}\n'],
        ),
        (Changes(remove=["hdf5"]), ['          -   {spec: "hdf5@1.14 +mpi", reason: files}\n'], []),
        (
            Changes(remove=["zstd"]),
            COMMENTED[COMMENTED.index("          - spec: zstd") : COMMENTED.index("          # noth")].splitlines(
                keepends=True
            ),
            [],
        ),
        (Changes(pin=["zstd@1.5"]), [], ["require:\n", "  zstd: '1.5'\n"]),
        (Changes(pin=["zstd@3.10"], reason="why"), [], ["require:\n", "  zstd: {version: '3.10', reason: why}\n"]),
    ],
)
def test_a_change_touches_its_own_lines_alone(changes: Changes, removed: list[str], added: list[str]) -> None:
    assert changed_lines(COMMENTED, edited(COMMENTED, changes)) == (removed, added)


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("groups: {a: {specs: [x]}}", Changes(add=["w"]), "groups: {a: {specs: [x, w]}}"),
        ("groups: {a: {specs: [x,]}}", Changes(add=["w"]), "groups: {a: {specs: [x, w,]}}"),
        ("groups: {a: {specs: []}}", Changes(add=["w"]), "groups: {a: {specs: [w]}}"),
        ("groups: {a: {specs: [x, w, z]}}", Changes(remove=["w"]), "groups: {a: {specs: [x, z]}}"),
        ("groups: {a: {specs: [x, w]}}", Changes(remove=["w"]), "groups: {a: {specs: [x ]}}"),
        ("groups: {a: {specs: [x]}}", Changes(remove=["x"]), "groups: {a: {specs: []}}"),
        ("groups:\n  a:\n    specs:\n    - x\n", Changes(remove=["x"]), "groups:\n  a:\n    specs: []\n"),
        ("require: {a: 1}", Changes(pin=["a@2"]), "require: {a: '2'}"),
        (
            "require:\n  a: {version: 1, reason: r}\n",
            Changes(pin=["a@2"]),
            "require:\n  a: {version: '2', reason: r}\n",
        ),
        (
            "require:\n  a: {version: 1, reason: r}\n",
            Changes(pin=["a@2"], reason="s"),
            "require:\n  a: {version: '2', reason: s}\n",
        ),
        (
            "require:\n  a: {version: 1} # c\n",
            Changes(pin=["a@2"], reason="s"),
            "require:\n  a: {version: '2', reason: s} # c\n",
        ),
        (
            "require:\n  a: {variants: +x}\n",
            Changes(pin=["a@2"]),
            "require:\n  a: {variants: +x, version: '2'}\n",
        ),
        (
            "require:\n  a:\n    variants: +x\n  b: 1\n",
            Changes(pin=["a@2"], reason="s"),
            "require:\n  a:\n    variants: +x\n    version: '2'\n    reason: s\n  b: 1\n",
        ),
        ("require:\n  a: null\n  b: 1\n", Changes(pin=["a@2"]), "require:\n  a: '2'\n  b: 1\n"),
        ("require:\n  a: # c\n  b: 1\n", Changes(pin=["a@2"]), "require:\n  a: '2' # c\n  b: 1\n"),
        ("a: 1\r\nrequire:\r\n  b: 1 # c\r\n", Changes(pin=["c@2"]), "a: 1\r\nrequire:\r\n  b: 1 # c\r\n  c: '2'\r\n"),
        ("extends: x", Changes(add=["w"]), "extends: x\ngroups:\n  added:\n    specs:\n    - w\n"),
        ("{extends: x}", Changes(add=["w"]), "{extends: x, groups: {added: {specs: [w]}}}"),
    ],
)
def test_every_way_to_write_a_list_is_kept(text: str, changes: Changes, expected: str) -> None:
    assert edited(text, changes) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extends: x\n", "extends: x\nremove: [w]  # w: it's # slow\n"),
        ("remove: [v]\n", "remove: [v, w]  # w: it's # slow\n"),
        ("remove: [v] # v: old\na: 1\n", "remove: [v, w] # v: old  # w: it's # slow\na: 1\n"),
        ("remove:\r\n- v\r\na: 1\r\n", "remove:\r\n- v\r\n- w  # w: it's # slow\r\na: 1\r\n"),
        ("groups: {a: {specs: [w]}}", "groups: {a: {specs: []}}\nremove: [w]  # w: it's # slow\n"),
    ],
)
def test_the_reason_of_a_removal_stands_beside_it(text: str, expected: str) -> None:
    after = edited(text, Changes(remove=["w"], reason="it's\n# slow"), {"w": "a"})

    assert after == expected
    assert yaml.safe_load(after)["remove"][-1] == "w"


@pytest.mark.parametrize("text", ["groups: {a: {specs: [w]}}", "{remove: [v], extends: x}"])
def test_a_reason_that_would_be_lost_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"reason|comment"):
        edited(text, Changes(remove=["w"], reason="slow"), {"w": "a"} if "remove" in text else {})


names = st.sampled_from(["zlib-ng", "hdf5", "zstd", "pigz", "boost", "fmt", "lz4"])
remarks = st.sampled_from(["", "  # why: [a, 'b'", " #x", "   "])


@st.composite
def recipes(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A recipe's groups in one of the many ways that YAML has, and the packages in it."""
    packages = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    quote = draw(st.sampled_from(["", "'", '"']))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [f"description: d{draw(remarks)}", f"groups:{draw(remarks)}", "  all:"]
    if draw(st.booleans()):
        inner = draw(st.sampled_from([", ", ",", " , "])).join(f"{quote}{name}{quote}" for name in packages)
        lines.append(f"    specs: [ {inner} ]{draw(remarks)}")
    else:
        lines.append(f"    specs:{draw(remarks)}")
        indent = " " * draw(st.integers(4, 8))
        for name in packages:
            lines += [f"{indent}# about {name}"] * draw(st.integers(0, 1)) + [""] * draw(st.integers(0, 1))
            spec = f"{quote}{name}{quote}"
            form = draw(st.sampled_from([f"- {spec}", f"- {{spec: {spec}, reason: r}}", f"-   spec: {spec}"]))
            lines.append(f"{indent}{form}{draw(remarks)}")
    lines += [f"view: {{link: all}}{draw(remarks)}", "# end"]
    return newline.join(lines) + draw(st.sampled_from(["", newline])), packages


@settings(max_examples=30)
@given(recipes(), names, st.sampled_from(["add", "remove", "pin"]))
def test_what_is_not_touched_stays_byte_for_byte(recipe: tuple[str, list[str]], name: str, action: str) -> None:
    text, packages = recipe
    if action == "remove" and name not in packages:
        return
    changes = Changes(**{action: [f"{name}@1.2" if action == "pin" else f"{name} +x" if action == "add" else name]})

    after = edited(text, changes)

    old, new = (yaml.load(written, yaml.CSafeLoader) for written in (text, after))
    assert {key: value for key, value in new.items() if key not in ("groups", "require")} == {
        key: value for key, value in old.items() if key != "groups"
    }
    listed = [entry["spec"] if isinstance(entry, dict) else entry for entry in new["groups"]["all"]["specs"]]
    expected = {
        "add": [f"{name} +x" if each == name else each for each in packages] + [f"{name} +x"] * (name not in packages),
        "remove": [each for each in packages if each != name],
        "pin": packages,
    }[action]
    assert listed == expected
    removed, added = changed_lines(text, after)
    assert len(removed) <= 2
    assert len(added) <= 2
    kept = [line for line in _ended(text).splitlines(keepends=True) if name not in line and "specs:" not in line]
    assert _in_order(kept, _ended(after).splitlines(keepends=True))
    lost = [line for line in removed if not (action == "remove" and name in line)]  # its own remark goes with it
    assert all(line.partition("#")[2] in after for line in lost)
    if action == "pin":
        assert "".join(line for line in after.splitlines(keepends=True) if line not in added).startswith(
            text.rstrip("\r\n")
        )


def _ended(text: str) -> str:
    """The text with a line break at its end, as the others of it are."""
    return text if text.endswith("\n") else text + ("\r\n" if "\r\n" in text else "\n")


def _in_order(lines: list[str], among: list[str]) -> bool:
    """Whether lines are among others in their order, byte for byte."""
    rest = iter(among)
    return all(line in rest for line in lines)


class TestEdit:
    def test_the_change_is_shown_and_written_with_the_mode_of_before_and_the_command_that_builds_it(
        self, cli: Cli, write: Write
    ) -> None:
        path = write("elsewhere/special.yaml", COMMENTED)
        path.chmod(0o660)
        write("p/repo.yaml", "repo: {namespace: builtin}\n")
        words = ("edit", "elsewhere/special.yaml", "--add", "pigz", "--reason", "parallel", "--repo", "builtin=p")

        dry = cli(*words, "--dry-run")
        unchanged = path.read_text()
        answer = cli(*words, "--spack", "my spack")

        assert (dry.code, answer.code) == (0, 0), answer.stderr
        assert "+          - {spec: pigz, reason: parallel}\n" in answer.stdout == dry.stdout
        assert unchanged == COMMENTED
        assert "{spec: pigz, reason: parallel}" in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o660
        assert "uenvtool build elsewhere/special.yaml --spack 'my spack' --repo builtin=p\n" in answer.stderr

    def test_a_built_in_recipe_is_extended_by_one_of_the_users(self, cli: Cli, place: Path) -> None:
        before = (ROOT / "recipes/hello/recipe.yaml").read_bytes()

        first = cli("edit", "hello", "--add", "zstd@1.5.6", "--remove", "pigz")
        second = cli("edit", "hello", "--add", "lz4")

        assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
        assert "--- /dev/null\n" in first.stdout
        assert "+extends: hello\n" in first.stdout
        assert "--- recipes/my-hello/recipe.yaml\n" in second.stdout
        assert (ROOT / "recipes/hello/recipe.yaml").read_bytes() == before
        values = json.loads(cli("show", "my-hello", "--json").stdout)["values"]
        entries = [entry for group in values["groups"].values() for entry in group["specs"]]
        specs = [entry["spec"] if isinstance(entry, dict) else entry for entry in entries]
        assert {"lz4", "zlib-ng", "zstd@1.5.6"} <= set(specs)
        assert not {"pigz", "zstd"} & set(specs)
        assert cli("validate", "recipes/my-hello").code == 0

    def test_an_inherited_package_is_removed_by_name(self, cli: Cli, write: Write) -> None:
        path = write("recipes/mine/recipe.yaml", "extends: hello\ndescription: mine\n")

        assert cli("edit", "mine", "--remove", "zstd").code == 0
        assert path.read_text() == "extends: hello\ndescription: mine\nremove: [zstd]\n"


class TestNew:
    @pytest.mark.parametrize(
        ("words", "path"),
        [
            (["recipe", "mine"], "recipes/mine/recipe.yaml"),
            (["recipe", "mine", "--from", "pytorch-2.9"], "recipes/mine/recipe.yaml"),
            (["system", "mine"], "systems/mine.yaml"),
            (["system", "mine", "--from", "clariden"], "systems/mine.yaml"),
        ],
    )
    def test_the_file_is_valid_as_it_stands_and_what_is_next_works(self, cli: Cli, words: list[str], path: str) -> None:
        answer = cli("new", *words)

        assert (answer.code, answer.stdout) == (0, f"{path}\n")
        line = f"# yaml-language-server: $schema=https://uenvtool.invalid/schemas/{words[0]}.json\n"
        assert Path(path).read_text().startswith(line)  # nothing of the machine on which it was made
        assert cli("validate", path).code == 0
        build = answer.stderr.splitlines()[-1].split()
        assert cli(*build[1:], "--no-concretize", "--dry-run").code == 0

    @pytest.mark.parametrize("option", [["--gpu", "H100:8"], ["--cores", "8"], ["--runtime", "uenv"], ["--here"]])
    def test_a_system_that_extends_another_has_no_options_for_its_values(self, cli: Cli, option: list[str]) -> None:
        answer = cli("new", "system", "mine", "--from", "clariden", *option)

        assert answer.code == 2
        assert "--from cannot be combined with --here, --fabric, --gpu, --cores or --runtime" in answer.stderr
        assert not Path("systems").exists()

    def test_a_new_system_says_all_that_spack_asks_for(self, cli: Cli) -> None:
        cli("new", "system", "mine")

        answers = node_answers(plan_environment(load_recipe("hello"), load_system("mine"), "cpu"))

        assert (answers["target"], answers["os"], answers["libc"]) == ("x86_64_v3", "ubuntu22.04", "glibc@=2.35")
        text = Path("systems/mine.yaml").read_text()
        assert "# The network between the nodes: slingshot, roce, infiniband, ethernet or none.\n" in text


HELD = """\
extends: pytorch-2.9
description: Ours.
groups:
  python: {specs: [py-torchvision@0.24.1 +x, py-h5py]}
require: {py-triton: 3.5.1}
"""


def test_a_pin_takes_the_place_of_what_a_built_in_recipe_pins_and_says_what_is_coupled(cli: Cli) -> None:
    answer = cli("edit", "pytorch-2.9", "--pin", "py-torch@2.10")

    assert answer.code == 0, answer.stderr
    assert "+    - py-torch@2.10\n" in answer.stdout
    assert (
        "the version of another package depends on py-torch: torch 2.10.0 was released with triton 3.6.0"
        in answer.stderr
    )
    made = load_recipe("my-pytorch-2.9")
    assert next(root.spec.words["nccl"] for root in made.roots if root.spec.package == "py-torch") == "+nccl"


@pytest.mark.parametrize("coupled", [("py-torchvision@0.25.0", "py-triton@3.6.0"), ()])
def test_pins_take_the_place_of_what_the_recipe_holds_in_specs_and_pins(
    cli: Cli, write: Write, coupled: tuple[str, ...]
) -> None:
    path = write("recipes/ours/recipe.yaml", HELD)
    pins = [word for pin in ("py-torch@2.10", *coupled) for word in ("--pin", pin)]

    answer = cli("edit", "ours", *pins)

    assert answer.code == 0, answer.stderr
    assert path.read_text() == HELD.replace("0.24.1 +x, py-h5py", "0.25.0 +x, py-h5py, py-torch@2.10").replace(
        "3.5.1", "'3.6.0'"
    )
    assert ("also changed, because it is coupled: py-triton@3.6.0, py-torch" in answer.stderr) == (not coupled)


def test_a_pin_changes_preferred_and_conditional_versions_of_coupled_packages(cli: Cli, write: Write) -> None:
    pins = "prefer: {py-triton: 3.5.1}\nrequire: {py-torchaudio: {version: 2.9.1, when: site == CSCS, reason: r}}\n"
    path = write("recipes/ours/recipe.yaml", "extends: pytorch-2.9\ndescription: Ours.\n" + pins)

    answer = cli("edit", "ours", "--pin", "py-torch@2.14.0", "--pin", "py-torchvision@0.29.1")

    assert answer.code == 0, answer.stderr
    changed = pins.replace("3.5.1", "'3.8.0'").replace("2.9.1", "'2.11.0'")
    assert changed.removesuffix("}\n") in path.read_text()


def test_a_pin_that_contradicts_the_coupling_of_another_pin_is_an_error(cli: Cli, write: Write) -> None:
    path = write("recipes/ours/recipe.yaml", HELD)

    answer = cli("edit", "ours", "--pin", "py-torch@2.10", "--pin", "py-triton@3.5.1")

    assert answer.code == 2
    assert "py-triton@3.5.1 is not compatible with py-torch@2.10.0, which needs py-triton@3.6.0" in answer.stderr
    assert path.read_text() == HELD


@pytest.mark.parametrize(
    ("pin", "held", "added"),
    [
        ("python@3.13.1", "python: {version: 3.12.1, reason: r}\n", "python: {version: '3.13.1', reason: r}\n"),
        ("gcc@14.2.0", "compiler: gcc@13.3.0\n", "compiler: gcc@14.2.0\n"),
        ("gcc@14.2.0", "compiler: {spec: gcc@13.3.0, reason: r}\n", "compiler: {spec: gcc@14.2.0, reason: r}\n"),
        ("llvm@19", "compilers:\n  llvm: 18\n", "  llvm: '19'\n"),
    ],
)
def test_a_pin_of_python_or_a_compiler_stands_where_the_recipe_says_it(
    cli: Cli, write: Write, pin: str, held: str, added: str
) -> None:
    before = SMALL + held
    path = write("recipes/ours/recipe.yaml", before)

    answer = cli("edit", "ours", "--pin", pin)

    assert answer.code == 0, answer.stderr
    assert changed_lines(before, path.read_text()) == ([held.splitlines(keepends=True)[-1]], [added])


def test_a_pin_that_the_recipe_extends_over_is_replaced_in_the_recipe_of_the_users(cli: Cli, write: Write) -> None:
    write("recipes/below/recipe.yaml", SMALL + "python: {version: 3.12.1, reason: r}\nrequire: {zlib-ng: 2.2.1}\n")
    path = write("recipes/ours/recipe.yaml", "extends: below\ndescription: Ours.\n")

    answer = cli("edit", "ours", "--pin", "python@3.13.1", "--pin", "zlib-ng@2.2.4")

    assert answer.code == 0, answer.stderr
    assert path.read_text().endswith("python: '3.13.1'\nrequire:\n  zlib-ng: '2.2.4'\n")
    assert "no other package is known to depend on the version of zlib-ng" in answer.stderr


def test_a_pin_whose_coupled_versions_are_not_known_names_the_packages_to_check(cli: Cli, write: Write) -> None:
    write("recipes/ours/recipe.yaml", HELD)

    answer = cli("edit", "ours", "--pin", "py-torch@2.5.0", "--dry-run")

    assert answer.code == 0, answer.stderr
    told = (
        "check the versions of py-torchaudio, py-torchvision, py-triton: those that match py-torch@2.5.0 are not known"
    )
    assert told in " ".join(answer.stderr.split())
