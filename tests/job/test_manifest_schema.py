"""Test PyTorchJob manifests against the schemas of Kubernetes and the training operator."""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from tests.conftest import Cli
from tests.support.needs import skip_without

MODELS = "kubeflow.training.models"
OF_KUBERNETES = re.compile(r"(object|str|int|bool|V1\w+|.*V1(ObjectMeta|PodTemplateSpec))$")


@pytest.fixture
def manifest(cli: Cli) -> dict[str, Any]:
    """The manifest of a job of two pods, as a cluster reads it."""
    words = ("--system", "rcp", "--image", "registry/x:v1", "--nodes", "2", "-o", "train.sh", "--json", "--dry-run")
    answer = cli("job", *words, "--env", "A=b", "--env", "HF_TOKEN", "--", "python", "train.py", "--lr", "0.1")
    assert answer.code == 0, answer.stderr
    (text,) = [text for name, text in json.loads(answer.stdout)["files"].items() if name.endswith(".yaml")]
    loaded: dict[str, Any]
    _, loaded = yaml.safe_load_all(text)
    return loaded


def test_each_pod_is_one_of_kubernetes(manifest: dict[str, Any]) -> None:
    validate = needed("kubernetes_validate", "pip install kubernetes-validate").validate

    for replica in manifest["spec"]["pytorchReplicaSpecs"].values():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": replica["template"]["spec"]}
        validate(pod, "1.30", strict=True)


@pytest.mark.slow
def test_the_job_has_only_what_the_training_operator_knows(manifest: dict[str, Any]) -> None:
    models = needed(MODELS, "pip install kubeflow-training")

    unknown = unknown_names(models, "KubeflowOrgV1PyTorchJob", manifest)

    assert unknown == []
    broken = {**manifest, "spec": {**manifest["spec"], "nodes": 2}}
    assert unknown_names(models, "KubeflowOrgV1PyTorchJob", broken) == ["KubeflowOrgV1PyTorchJobSpec.nodes"]


def unknown_names(models: Any, kind: str, value: Any) -> list[str]:
    """The names in a value that the type has no field for, down to the types that are Kubernetes' own."""
    if held := re.fullmatch(r"dict\(str, (\w+)\)", kind):
        return joined(unknown_names(models, held[1], each) for each in value.values())
    if OF_KUBERNETES.fullmatch(kind):
        return []
    model = getattr(models, kind)
    fields = {name: model.openapi_types[field] for field, name in model.attribute_map.items()}
    lost = [f"{kind}.{name}" for name in value if name not in fields]
    return lost + joined(unknown_names(models, fields[name], value[name]) for name in value if name in fields)


def joined(lists: Iterable[list[str]]) -> list[str]:
    return list(itertools.chain.from_iterable(lists))


def needed(module: str, how: str) -> Any:
    """A module of a package that the tests do not install by themselves."""
    try:
        return importlib.import_module(module)
    except ImportError:
        skip_without(module.split(".", maxsplit=1)[0], how)
