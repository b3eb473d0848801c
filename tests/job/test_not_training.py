"""Test jobs that are not distributed training: servers, evaluations, arrays and jobs without GPUs."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli, Write

UENV = ("--system", "clariden", "--account", "a", "--image", "mine/v1.0:v1")


def planned(cli: Cli, *words: str) -> dict[str, object]:
    """Return the plan of a job."""
    answer = cli("job", "--json", *words)
    assert answer.code == 0, answer.stderr
    data: dict[str, object] = json.loads(answer.stdout)
    return data


@pytest.mark.parametrize(
    ("command", "tasks"),
    [
        ("--launcher none -- vllm serve M", 1),
        ("--nodes 1 --gpus 1 -- vllm serve M", 1),
        ("-- python train.py --logger tensorboard", 4),
        ("-- echo tensorboard", 4),
        ("-- pip install gradio", 4),
    ],
)
def test_only_a_server_in_several_tasks_is_refused(cli: Cli, command: str, tasks: int) -> None:
    assert planned(cli, *UENV, *command.split())["tasks_per_node"] == tasks


@pytest.mark.parametrize(
    ("script", "launcher"),
    [
        ("vllm serve M", "none"),
        ("ray start --head", "none"),
        ("python -m sglang.launch_server", "none"),
        ("vllm serve M --port $((8000 + LOCAL_RANK))", "srun"),
        ("python eval.py", "srun"),
    ],
)
def test_a_script_with_a_server_runs_once_per_node(cli: Cli, write: Write, script: str, launcher: str) -> None:
    write("run.sh", f"{script}\n")

    for words in (("bash", "run.sh"), ("bash", "-c", script)):
        assert planned(cli, *UENV, "--", *words)["launcher"] == launcher
