"""Test that this machine is recognized by the signs in a system file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from uenvtool.knowledge.recognise import recognised


def test_a_machine_is_recognised_by_a_variable_with_its_value() -> None:
    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"CLUSTER_NAME": "elsewhere"}) is None


def test_a_machine_is_recognised_by_what_a_file_of_its_says(write: Write) -> None:
    """As /etc/xthostname on Alps, which ends with a line break."""
    name = write("xthostname", "ours\n")
    for system, value in (("other", "theirs"), ("mine", "ours")):
        write(f"systems/{system}.yaml", f"extends: clariden\nrecognise:\n- {{file: {name}, value: {value}}}\n")

    assert recognised({}) == ("mine", f"{name} contains ours")
    name.write_text("elsewhere")
    assert recognised({}) is None


def test_a_copy_of_a_system_takes_its_machine_over_under_its_own_name_alone(write: Write) -> None:
    """A sign of its own comes before those that ship, which say less of a site that has them too."""
    write("systems/aaa.yaml", "extends: rcp\nrecognise:\n- {env: CLUSTER_NAME, value: clariden}\n- {env: OURS}\n")

    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"RUNAI_NUM_OF_GPUS": "4", "OURS": "1"}) == ("aaa", "OURS=1")


@pytest.mark.parametrize(
    ("package", "external", "missing"),
    [
        ("libfabric", "libfabric@1.22.0", "fabrics=cxi,rxm,tcp, which slingshot requires"),
        ("libfabric", "libfabric@1.22.0 +cuda fabrics=tcp", "fabrics=cxi,rxm,tcp, which slingshot requires"),
        ("libfabric", "libfabric@1.22.0 fabrics=cxi", ""),
        ("openmpi", "openmpi@5.0.8 fabrics=ucx", "fabrics=ofi, which slingshot requires"),
        ("openmpi", "openmpi@5.0.8 fabrics=ofi,ucx", "schedulers=slurm, which mine requires"),
        ("openmpi", "openmpi@5.0.8 fabrics=ofi schedulers=slurm", "+cuda cuda_arch=90, which mine requires"),
        ("openmpi", "openmpi@5.0.8 fabrics=ofi,ucx schedulers=slurm +cuda cuda_arch=80,90", ""),
        ("mpich", "mpich@4.3 device=ch4", "device=ch4 netmod=ofi, which slingshot requires"),
        ("hdf5", "hdf5@1.14", "@:1.12 +mpi, which mine requires"),
        ("hdf5", "hdf5@1.12.3", "@:1.12 +mpi, which mine requires"),
        ("hdf5", "hdf5@1.12.3 ~mpi", "@:1.12 +mpi, which mine requires"),
        ("hdf5", "hdf5@1.12.3 mpi=true", ""),
    ],
)
def test_an_external_that_spack_would_never_use_is_reported(
    write: Write, cli: Cli, package: str, external: str, missing: str
) -> None:
    required = "['@:1.12 +mpi']" if package == "hdf5" else "[]"
    text = f"{{externals: [{{spec: '{external}', prefix: /opt}}], require: {required}}}"
    write("systems/mine.yaml", f"extends: clariden\npackages: {{{package}: {text}}}\n")

    answer = cli("validate", "systems/mine.yaml")

    message = f"{external} does not have {missing}" if missing else "systems/mine.yaml: fine"
    assert message in answer.stderr
    assert answer.code == (2 if missing else 0)


@pytest.mark.parametrize(("external", "code"), [("hdf5@1.14 cuda_arch=90", 0), ("hdf5@1.14", 2)])
def test_a_value_that_depends_on_the_node_is_not_compared(write: Write, cli: Cli, external: str, code: int) -> None:
    text = f"{{externals: [{{spec: '{external}', prefix: /opt}}], require: ['cuda_arch=${{cuda_arch}}']}}"
    write("systems/mine.yaml", f"extends: clariden\npackages: {{hdf5: {text}}}\n")

    answer = cli("validate", "systems/mine.yaml")

    assert answer.code == code, answer.stderr


def test_validate_fills_every_value_of_a_system_that_a_build_fills(write: Write, cli: Cli) -> None:
    packages = """\
packages:
  hdf5: {require: ['cuda_arch=${cuda_arch}']}
  zstd: {externals: [{spec: 'zstd@1.5 cuda_arch=${cuda_arch}', prefix: /usr}]}
"""
    write("systems/mine.yaml", f"extends: eiger\n{packages}")
    write("systems/with.yaml", f"extends: bristen\n{packages}")

    answer, with_gpus = (cli("validate", f"systems/{name}.yaml") for name in ("mine", "with"))

    assert (answer.code, with_gpus.code) == (2, 0)
    assert "systems/mine.yaml:3:3: ${cuda_arch} has no value on mine, node type zen2" in answer.stderr


def test_a_cpu_system_of_alps_builds_and_sets_no_variable_of_nccl(cli: Cli) -> None:
    assert cli("build", "hello", "--system", "eiger", "--dry-run").code == 0

    settings = json.loads(cli("explain", "--system", "eiger", "--json").stdout)
    job = cli("job", "--system", "eiger", "--runtime", "ce", "--account", "a", "--image", "i", "-o", "j", "--", "true")

    assert job.code == 0, job.stderr
    written = Path("j").read_text() + Path("j.toml").read_text()
    assert not [row["name"] for row in settings if row["name"].startswith("NCCL_")]
    assert "NCCL_" not in written
    assert "aws_ofi_nccl" not in written


@pytest.mark.parametrize(("package", "code"), [("", 2), ("cray-mpich: {buildable: true}", 0)])
def test_an_mpi_that_spack_cannot_build_must_be_on_the_nodes(write: Write, cli: Cli, package: str, code: int) -> None:
    cli("new", "system", "mine", "--fabric", "slingshot", "--gpu", "A100:4")
    text = Path("systems/mine.yaml").read_text().replace("mpi: openmpi", "mpi: cray-mpich")
    write("systems/mine.yaml", text.replace("packages:\n", f"packages:\n  {package}\n"))

    answer = cli("validate", "systems/mine.yaml")

    assert answer.code == code, answer.stderr
    message = "systems/mine.yaml:8:6: Spack cannot build cray-mpich, but mine does not provide cray-mpich"
    assert (message in answer.stderr) == (code == 2)


def test_an_external_for_another_node_type_is_usable(write: Write, cli: Cli) -> None:
    external = "{spec: 'hdf5@1.14 amdgpu_target=gfx942', prefix: /opt}"
    package = f"{{externals: [{external}], require: ['amdgpu_target=${{amdgpu_target}}']}}"
    write("systems/mine.yaml", f"extends: beverin\npackages: {{hdf5: {package}}}\n")

    assert cli("validate", "systems/mine.yaml").code == 0
