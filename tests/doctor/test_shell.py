"""Diagnosis of a shell with real Pythons and overlays, on a laptop, and with absurd environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Cli, Loaded
from tests.support.needs import skip_without
from tests.support.overlays import BaseHere, install, wheel
from tests.support.programs import program
from tests.venv.test_numpy_abi import FOR_1, compiled
from tests.venv.test_torch_abi import BYE, HELLO, library
from uenvtool.doctor import disks, libraries, machine
from uenvtool.doctor.shell import examine_shell
from uenvtool.doctor.variables import current_tuning


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up a shell outside of jobs and environments."""
    for name in list(os.environ):
        if name.startswith(("SLURM", "NCCL", "FI_", "MPICH", "OMP_", "MASTER", "KUBERNETES", "PYTHON", "VIRTUAL_ENV")):
            monkeypatch.delenv(name)


def found(cli: Cli, *options: str) -> dict[str, str]:
    """Return the detail of each finding, by ID."""
    answer = cli("doctor", "--json", *options)
    assert answer.code in (0, 1), answer.stderr
    return {finding["id"]: finding["detail"] for finding in json.loads(answer.stdout)["findings"]}


def mounted_as(root: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the machine's mount table."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(table)
    monkeypatch.setenv("UENVTOOL_ROOT", str(root))


def fill(base: BaseHere, folder: Path) -> None:
    """Install a torch and a tool into a base."""
    packages = [wheel(folder, "torch", "2.6.0"), wheel(folder, "tool", "1.0")]
    install(base.site, *packages)


def test_skipped_checks_are_listed_in_one_line(cli: Cli) -> None:
    answer = cli("doctor")

    assert (answer.code, answer.stderr) == (0, "")
    assert answer.stdout == (
        "no problems found in this shell; skipped: variables (this machine is not a known system; pass --system), "
        "network, ports, memory (not inside a job)\n"
    )


def test_new_overlay_is_healthy_and_each_fault_is_found(
    cli: Cli, loaded: Loaded, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = loaded("pythonpath")
    fill(base, wheels)
    c10 = library(base.site / "torch" / "lib" / "libc10.so", f"void {HELLO}(void) {{}}")
    install(base.site, wheel(place / "base", "numpy", "2.1.0"))
    wheel(wheels, "tool", "2.0")
    assert cli("venv", "v", "tool==2.0").code == 0
    own = place / "v" / "lib" / f"python{base.version}" / "site-packages"
    monkeypatch.setenv("PATH", f"{place}/v/bin:{os.environ['PATH']}")
    session = {"inside-uenv-session": "stack"}
    assert found(cli) == session

    monkeypatch.setenv(
        "PYTHONPATH", f"{base.site}:/elsewhere/lib/python2.7/site-packages:/x/lib/python3.1/site-packages"
    )
    assert found(cli).keys() == session.keys() | {"python-path-other"}
    monkeypatch.setenv("PYTHONPATH", str(base.site))

    fits = library(place / "good.so", f"void {HELLO}(void); void f(void) {{ {HELLO}(); }}", c10).read_bytes()
    install(own, wheel(place / "more", "good", "1.0", files={"good/_C.so": fits}))
    assert found(cli) == session

    misfit = library(place / "bad.so", f"void {BYE}(void); void f(void) {{ {BYE}(); }}", c10).read_bytes()
    install(own, wheel(place / "more", "ext", "1.0", files={"ext/_C.so": misfit}))
    install(own, compiled(place / "more", "old", FOR_1))
    seen = found(cli)
    assert seen.keys() == session.keys() | {"import-abi", "numpy-abi"}
    assert "ext 1.0 is compiled for another torch: _C.so uses c10::bye" in seen["import-abi"]
    assert "old 1.0 is built for numpy 1" in seen["numpy-abi"]
    monkeypatch.setenv("SLURM_PROCID", "0")  # one rank of many does not read all compiled files
    assert found(cli) == session

    install(own, wheel(place / "other", "torch", "2.9.0"))  # as `uv pip install torch` does
    assert found(cli) == {**session, "two-torches": f"2.9.0 in {own} hides 2.6.0 in {base.site}"}

    install(base.site, wheel(wheels, "more", "1.0"))
    assert "overlay-base-missing" in found(cli)
    monkeypatch.delenv("PYTHONPATH")
    base.root.parent.rename(base.root.parent.with_name("gone"))
    assert "overlay-base-missing" in found(cli)


def test_venv_after_pythonpath_is_hidden_by_the_base(
    cli: Cli, loaded: Loaded, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = loaded("pythonpath")
    fill(base, wheels)
    subprocess.run([base.python, "-m", "venv", "--without-pip", "--system-site-packages", "v"], check=True)
    own = place / "v" / "lib" / f"python{base.version}" / "site-packages"
    install(own, wheel(wheels, "tool", "2.0"))
    monkeypatch.setenv("PATH", f"{place}/v/bin:{os.environ['PATH']}")

    assert found(cli)["base-hides-overlay"] == f"tool 1.0 in {base.site} hides 2.0 in {own}"


def test_packed_overlay_older_than_its_directory_is_found(
    cli: Cli, loaded: Loaded, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = loaded("pythonpath")
    fill(base, wheels)
    wheel(wheels, "tool", "2.0")
    wheel(wheels, "more", "1.0")
    assert cli("venv", "v", "tool==2.0", "--squash").code == 0
    monkeypatch.setenv("PATH", f"{place}/v/bin:{os.environ['PATH']}")
    assert set(found(cli)) == {"inside-uenv-session"}

    assert cli("venv", "v", "more").code == 0
    answer = cli("doctor", "--fix")
    assert "is older than the unpacked overlay" in answer.stdout
    assert "\nuenvtool venv v --squash\n" in answer.stdout


def test_a_python_that_does_not_start_is_a_finding(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(place / "bin" / "python", "echo 'libpython3.12.so: cannot open' >&2\nexit 127")
    monkeypatch.setenv("PATH", f"{python.parent}:/usr/bin:/bin")

    assert found(cli)["python-broken"] == "libpython3.12.so: cannot open"


def test_provider_that_libfabric_lacks_is_found(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fi_info = program(place / "bin/fi_info", "printf 'tcp:\\n    version: 204.0\\nshm:\\n    version: 204.0\\n'")
    monkeypatch.setenv("PATH", f"{fi_info.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("FI_PROVIDER", "cxi")

    assert found(cli)["provider-missing"] == "FI_PROVIDER=cxi, but libfabric offers shm, tcp"
    monkeypatch.setenv("FI_PROVIDER", "tcp;ofi_rxm")
    assert "provider-missing" not in found(cli)


@pytest.fixture
def with_mpi4py(place: Path, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install an mpi4py linked with Cray MPICH, or the given MPI library, into the Python of a job."""
    base = loaded("pythonpath")
    mpi = library(place / "mpich" / "libmpi_gnu_123.so.12", "int mpi;")
    install(base.site, wheel(place / "w", "mpi4py", "4.0.1"))
    monkeypatch.setenv("PATH", f"{base.python.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(mpi.parent))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("MPICH_GPU_SUPPORT_ENABLED", "1")

    def link(*more: Path, mpi: Path = mpi, name: str = "MPI") -> None:
        library(base.site / "mpi4py" / f"{name}.cpython-312-x86_64-linux-gnu.so", "int module;", mpi, *more)

    return link


def test_mpi_program_without_gtl_is_found(
    cli: Cli, with_mpi4py: Callable[..., None], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = library(place / "mpich" / "libmpi_gtl_cuda.so.0", "int layer;")
    with_mpi4py()
    assert "MPI.cpython-312" in found(cli)["gtl-not-linked"]

    monkeypatch.setenv("LD_PRELOAD", str(layer))
    assert "gtl-not-linked" not in found(cli)
    monkeypatch.delenv("LD_PRELOAD")

    with_mpi4py(layer)
    assert "gtl-not-linked" not in found(cli)
    with_mpi4py()
    library(place / "mpich" / "libmpi_gnu_123.so.12", "int mpi;", layer)
    assert "gtl-not-linked" not in found(cli)
    monkeypatch.setenv("MPICH_GPU_SUPPORT_ENABLED", "0")
    library(place / "mpich" / "libmpi_gnu_123.so.12", "int mpi;")
    assert "gtl-not-linked" not in found(cli)


def test_two_kinds_of_mpi_are_found(cli: Cli, with_mpi4py: Callable[..., None], place: Path) -> None:
    with_mpi4py()
    for name in ("libmpi.so.12.2.0", "libmpi.so.12", "libmpi.so"):  # the names of one library
        library(place / "mpich" / name, "int mpi;")
    assert "two-mpis" not in found(cli)
    other = library(place / "openmpi" / "libmpi.so.40", "int mpi;")
    with_mpi4py(mpi=other, name="MPI.openmpi")  # a wheel has a part for each MPI
    other.rename(place / "gone.so")
    assert "two-mpis" not in found(cli)

    with_mpi4py(mpi=library(other, "int mpi;"))
    assert "libmpi.so.40 needed by " in found(cli)["two-mpis"]


def test_hub_cache_on_a_shared_disk_is_counted(
    cli: Cli, loaded: Loaded, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = loaded("pythonpath")
    install(base.site, wheel(place / "w", "huggingface_hub", "1.0"))
    monkeypatch.setenv("PATH", f"{base.python.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    mounted_as(place, f"1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {place}/home rw - lustre fs rw\n", monkeypatch)
    hub = place / "home" / ".cache" / "huggingface"
    (hub / "hub").mkdir(parents=True)
    for number in range(1_999):
        (hub / "hub" / str(number)).touch()
    assert "hub-cache-on-shared-disk" not in found(cli)

    (hub / "hub" / "one-more").touch()
    monkeypatch.setenv("HF_HUB_CACHE", str(hub / "hub"))
    assert found(cli)["hub-cache-on-shared-disk"] == f"HF_HOME {hub}, at least 2000 files on lustre"
    assert f"\nmksquashfs {hub} hub.squashfs\n" in cli("doctor", "--fix").stdout
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(place / "elsewhere"))
    assert "hub-cache-on-shared-disk" not in found(cli)


def test_host_paths_in_variables_are_found_in_a_container(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("VIRTUAL_ENV", str(place / "of-the-host"))
    monkeypatch.setenv("CUDA_HOME", str(place))
    monkeypatch.setenv("UENV_MOUNT_LIST", f"{place}:/user-gone")
    assert "host-variable-left" not in found(cli)  # no container

    monkeypatch.setenv("APPTAINER_CONTAINER", "/x.sif")
    assert found(cli)["host-variable-left"] == (
        f"VIRTUAL_ENV={place}/of-the-host, UENV_MOUNT_LIST=/user-gone do not exist here"
    )
    fix = cli("doctor", "--fix").stdout
    assert "\nunset VIRTUAL_ENV UENV_MOUNT_LIST\n" in fix


def test_a_job_of_one_node_on_olivia_does_not_lack_the_network(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "olivia")

    answers = []
    for nodes in ("1", "2"):
        monkeypatch.setenv("SLURM_JOB_NUM_NODES", nodes)
        answers.append(cli("doctor", "--runtime", "apptainer", "--json").stdout)

    assert ["NCCL_NET, " in answer or "NCCL_NET " in answer for answer in answers] == [False, True]


def test_fix_commands_resolve_their_findings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {
        "CLUSTER_NAME": "clariden",
        "UENV_VIEW": "/u:pytorch:default",
        "SLURM_JOB_ID": "17",
        "NCCL_NET_PLUGIN": "ofi",
    }
    for name, value in {**environ, "OMP_NUM_THREADS": "999", "FI_CXI_DEFAULT_TX_SIZE": "32768"}.items():
        monkeypatch.setenv(name, value)
    command = program(Path("bin/uenvtool"), f'exec {sys.executable} -m uenvtool "$@"')
    monkeypatch.setenv("PATH", f"{command.parent.absolute()}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    script = "uenvtool doctor --fix >fix.sh; . ./fix.sh >/dev/null 2>&1; uenvtool doctor --json"

    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

    left = {finding["id"] for finding in json.loads(ran.stdout)["findings"]}
    assert not left & {"variable-missing", "variable-wrong", "threads-over-cores"}, ran.stdout


def test_secrets_in_the_environment_are_hidden(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hf_abcdefghijklmnop"
    for name in ("HF_TOKEN", "WANDB_API_KEY", "MASTER_ADDR"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("NCCL_NET", f"https://u:{secret}@x")
    monkeypatch.setenv("SLURM_JOB_ID", "1")

    for options in ([], ["--json"], ["--verbose"], ["--fix"]):
        answer = cli("doctor", "--system", "clariden", "--runtime", "uenv", *options)
        assert secret not in answer.stdout + answer.stderr


def test_machine_properties_are_read() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] in machine.listening()
    assert machine.cores() in range(1, 1 + (os.cpu_count() or 1))
    try:
        socket.getaddrinfo("localhost", None)
    except OSError:
        skip_without("the name localhost", "a line `127.0.0.1 localhost` in /etc/hosts")
    assert machine.unresolved(["localhost", "no.such.host.invalid"]) == ("no.such.host.invalid",)


def test_disk_of_a_directory_is_its_nearest_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = f"2 1 0:2 / {tmp_path} rw,relatime shared:1 - lustre fs rw"
    mounted_as(tmp_path / "root", f"1 0 0:1 / / rw - ext4 /dev/sda rw\nrubbish\n{shared}\n", monkeypatch)
    mounts = disks.mounts(os.environ)

    assert disks.directory_at(str(tmp_path / "v"), mounts).disk == "lustre"
    assert disks.directory_at(str(tmp_path), mounts).files == 1
    assert disks.directory_at("/usr", mounts).disk == "ext4"


def test_libraries_are_found_in_loader_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libnccl-net.so").touch()
    there, gone = libraries.search_path({"LD_LIBRARY_PATH": f"{tmp_path}/b:{tmp_path}/none::{tmp_path}/a"})

    assert (there, gone) == ([f"{tmp_path}/b", f"{tmp_path}/a"], [f"{tmp_path}/none"])
    assert libraries.found_in(there, "libnccl-net*.so*") == (f"{tmp_path}/b/libnccl-net.so",)


NAMES = ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UENV_VIEW", "UENV_MOUNT_LIST"]
NAMES += ["SLURM_JOB_ID", "CLUSTER_NAME", "MASTER_ADDR", "MASTER_PORT", "HOME", "TRITON_HOME", "NCCL_VERSION"]
NAMES += ["OMP_NUM_THREADS", "NCCL_NET_PLUGIN", "FI_CXI_DEFAULT_TX_SIZE", "NCCL_PROTO"]
ODD = [
    "clariden",
    "/:a:b,/x:y",
    ":::",
    "/proc/self/root",
    "x" * 5000,
    "2.27",
    "64",
    "-1",
    "9" * 400,
    "ofi",
    "$(reboot)",
]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
        | st.sampled_from(ODD),
    )
)  # fmt: skip
def test_any_environment_is_handled(environ: dict[str, str]) -> None:
    examine_shell(environ)


def test_uenv_mounted_in_a_container_is_recognised(tmp_path: Path) -> None:
    view = tmp_path / "u" / "env" / "default"
    view.mkdir(parents=True)
    (tmp_path / ".dockerenv").touch()
    environ = {"UENVTOOL_ROOT": str(tmp_path), "UENV_VIEW": f"{tmp_path}/u:pytorch:default"}

    def runtime(environ: dict[str, str]) -> str:
        tuned, _ = current_tuning(environ, system="clariden", runtime=None, recipe=None, directories=(), python=None)
        return tuned.runtime if tuned else ""

    assert runtime(environ) == "uenv"
    assert runtime({**environ, "UENV_VIEW": "/not/mounted:pytorch:default"}) == "ce"
