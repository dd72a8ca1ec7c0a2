"""What `kubectl apply --kustomize deploy/kubernetes` sends, without a cluster.

It is held to the API of every Kubernetes whose schemas are at hand, and to the profile of Pod Security that the
namespace enforces. tests/deploy/test_kubernetes.py runs it in a cluster.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from tests.support.sites.deployment import KUBERNETES, manifests, pod_of

# https://kubernetes.io/docs/concepts/security/pod-security-standards/
RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


@pytest.fixture(scope="module")
def sent() -> list[Any]:
    kubectl = Path(sys.executable).parent / "kubectl"
    done = subprocess.run([kubectl, "kustomize", KUBERNETES], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def workloads(sent: list[Any]) -> list[Any]:
    return [one for one in sent if one["kind"] in ("Deployment", "Job")]


def test_everything_is_sent_and_to_the_one_namespace(sent: list[Any]) -> None:
    ours = [one for one in manifests() if one["kind"] != "Kustomization"]
    names = {(one["kind"], one["metadata"]["name"]) for one in sent}
    assert names == {(one["kind"], one["metadata"]["name"]) for one in ours}
    assert {one["metadata"].get("namespace") for one in sent if one["kind"] != "Namespace"} == {"sprocket"}


@pytest.mark.parametrize("version", sorted(set(all_versions())))
def test_every_version_of_the_api_knows_each_field(sent: list[Any], version: str) -> None:
    judged_by = {kubernetes_validate.validate(one, version, strict=True) for one in sent}
    assert judged_by == {version.removesuffix(".0")}


def test_an_unknown_field_is_found(sent: list[Any]) -> None:
    (autoscaler,) = [one for one in sent if one["kind"] == "HorizontalPodAutoscaler"]
    assert autoscaler["apiVersion"] == "autoscaling/v2"
    wrong = {**autoscaler, "spec": {**autoscaler["spec"], "minimumReplicas": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="minimumReplicas"):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_namespace_lets_every_pod_in(sent: list[Any]) -> None:
    (namespace,) = [one for one in sent if one["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert workloads(sent)
    for workload in workloads(sent):
        pod = pod_of(workload)
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        kinds = {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}
        assert kinds <= RESTRICTED_VOLUMES
        for container in pod.get("initContainers", []) + pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert not {"privileged", "procMount", "runAsUser", "runAsNonRoot", "seccompProfile"} & set(
                context
            )
            assert not any("hostPort" in port for port in container.get("ports", []))
