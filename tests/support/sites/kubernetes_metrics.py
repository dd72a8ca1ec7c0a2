"""Prometheus in the cluster, as docs/metrics.md sets it up, and external.metrics.k8s.io by the rule of docs/deploy.md.

Prometheus is the real one (SPROCKET_PROMETHEUS_IMAGE). In the place of prometheus-adapter, between it and the
autoscaler, stands metrics_adapter.py, which reads the same rule.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import trustme
import yaml

from tests.support import ROOT
from tests.support.sites.deployment import manifest, pod_of

if TYPE_CHECKING:
    from tests.support.sites.kubernetes import Cluster

PROMETHEUS = os.environ.get("SPROCKET_PROMETHEUS_IMAGE", "docker.io/prom/prometheus:v3.5.0")
NAMESPACE = "sprocket-test-metrics"
GROUP = "external.metrics.k8s.io"
TLS = "/etc/front"
CONFIGURATION = "/etc/prometheus"

ADAPTER = (ROOT / "tests/support/sites/metrics_adapter.py").read_text()

Object = dict[str, Any]


def block_of(page: str, key: str) -> Any:
    """The block of YAML with this key, from a page of the documentation."""
    (found,) = [
        block
        for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", (ROOT / "docs" / page).read_text())
        if key in (block := yaml.safe_load(text))
    ]
    return found[key]


def scrape_configuration() -> Object:
    """As the page has it, but more often, and for a certificate that only this test knows."""
    (scrape,) = block_of("metrics.md", "scrape_configs")
    assert scrape["scheme"] == "https"
    assert scrape["authorization"]["credentials_file"].startswith(CONFIGURATION)
    scrape["static_configs"] = [{"targets": ["videos.example.org"]}]
    scrape["tls_config"] = {"insecure_skip_verify": True}
    return {"global": {"scrape_interval": "2s"}, "scrape_configs": [scrape]}


def start(cluster: Cluster, *, image: str, token: str) -> None:
    """Whoever stands before the site and speaks HTTPS, then Prometheus and the adapter."""
    cluster.kubectl("create", "namespace", NAMESPACE, namespace=None)
    certificate = trustme.CA().issue_cert("videos.example.org")
    keys = {
        "tls.crt": certificate.cert_chain_pems[0].bytes().decode(),
        "tls.key": certificate.private_key_pem.bytes().decode(),
    }
    for namespace in (cluster.namespace, NAMESPACE):
        cluster.apply_objects([secret("front-tls", keys)], namespace)
    cluster.apply_objects([front(image), service("front", 443, 8443)], cluster.namespace)
    cluster.kubectl("wait", "--for=condition=ready", "pod/front", "--timeout=120s")
    address = cluster.get("service", "front")["spec"]["clusterIP"]
    (rule,) = block_of("deploy.md", "externalRules")
    files = {
        "prometheus.yml": json.dumps(scrape_configuration()),
        "sprocket-token": token,
    }
    settings = {"QUERY": rule["metricsQuery"], "SERIES": rule["seriesQuery"], "TLS": TLS}
    objects = [
        secret("prometheus", files),
        prometheus(image, address, settings),
        service("adapter", 443, 6443),
        registration(),
        *permission(),
    ]
    cluster.apply_objects(objects, NAMESPACE)
    cluster.kubectl(*("wait", "--for=condition=ready", "pod/adapter", "--timeout=120s"), namespace=NAMESPACE)
    cluster.kubectl(
        *("wait", "--for=condition=available", f"apiservice/v1beta1.{GROUP}", "--timeout=120s"),
        namespace=None,
    )


def stop(cluster: Cluster) -> None:
    cluster.kubectl("delete", "pod/front", "service/front", "secret/front-tls", "--ignore-not-found")
    cluster.kubectl("delete", "apiservice", f"v1beta1.{GROUP}", "--ignore-not-found", namespace=None)
    for kind in ("clusterrolebinding", "clusterrole", "namespace"):
        cluster.kubectl("delete", kind, NAMESPACE, "--ignore-not-found", namespace=None)


def front(image: str) -> Object:
    """A pod of the site that speaks HTTPS itself, under its public name; every one of them tells the same numbers."""
    web = pod_of(manifest("Deployment", "web"))
    (container,) = web["containers"]
    serve = ["uvicorn", "project.asgi:application", "--host=0.0.0.0", "--port=8443", "--no-proxy-headers"]
    pod = {
        "containers": [
            {
                "name": "front",
                "image": image,
                "command": [*serve, f"--ssl-certfile={TLS}/tls.crt", f"--ssl-keyfile={TLS}/tls.key"],
                "envFrom": container["envFrom"],
                "securityContext": {**container["securityContext"], "readOnlyRootFilesystem": False},
                "readinessProbe": {"tcpSocket": {"port": 8443}},
                "volumeMounts": [{"name": "tls", "mountPath": TLS}],
            }
        ],
        "securityContext": web["securityContext"],
        "automountServiceAccountToken": False,
        "volumes": [{"name": "tls", "secret": {"secretName": "front-tls"}}],
    }
    return {**named("v1", "Pod", "front"), "spec": pod}


def prometheus(image: str, site: str, settings: dict[str, str]) -> Object:
    pod = {
        "hostAliases": [{"ip": site, "hostnames": ["videos.example.org"]}],
        "containers": [
            {
                "name": "prometheus",
                "image": PROMETHEUS,
                "args": [
                    f"--config.file={CONFIGURATION}/prometheus.yml",
                    "--storage.tsdb.path=/tmp/prometheus",
                ],
                "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}},
                "volumeMounts": [{"name": "configuration", "mountPath": CONFIGURATION}],
            },
            {
                "name": "adapter",
                "image": image,
                "command": ["python", "-c", ADAPTER],
                "env": [{"name": name, "value": value} for name, value in settings.items()],
                "readinessProbe": {"tcpSocket": {"port": 6443}},
                "volumeMounts": [{"name": "tls", "mountPath": TLS}],
            },
        ],
        "volumes": [
            {"name": "tls", "secret": {"secretName": "front-tls"}},
            {"name": "configuration", "secret": {"secretName": "prometheus"}},
        ],
        "terminationGracePeriodSeconds": 5,
    }
    return {**named("v1", "Pod", "adapter"), "spec": pod}


def registration() -> Object:
    spec = {
        "group": GROUP,
        "version": "v1beta1",
        "service": {"name": "adapter", "namespace": NAMESPACE},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    return {**named("apiregistration.k8s.io/v1", "APIService", f"v1beta1.{GROUP}"), "spec": spec}


def permission() -> list[Object]:
    """The autoscaler's, to read such metrics; an installation of prometheus-adapter brings it along."""
    rights = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list"]}
    autoscaler = {
        "kind": "ServiceAccount",
        "name": "horizontal-pod-autoscaler",
        "namespace": "kube-system",
    }
    role = {"apiGroup": rights, "kind": "ClusterRole", "name": NAMESPACE}
    return [
        {**named(f"{rights}/v1", "ClusterRole", NAMESPACE), "rules": [rule]},
        {**named(f"{rights}/v1", "ClusterRoleBinding", NAMESPACE), "roleRef": role, "subjects": [autoscaler]},
    ]


def service(name: str, port: int, target: int) -> Object:
    spec = {"selector": {"app": name}, "ports": [{"port": port, "targetPort": target}]}
    return {**named("v1", "Service", name), "spec": spec}


def secret(name: str, texts: dict[str, str]) -> Object:
    return {**named("v1", "Secret", name), "stringData": texts}


def named(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"app": name}}}
