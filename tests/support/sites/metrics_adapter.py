"""What prometheus-adapter does for one rule, by Python's own means, in a pod of its own (kubernetes_metrics.py).

QUERY and SERIES are the rule's; Prometheus is in the same pod, the certificate in TLS.
"""

import json
import os
import re
import ssl
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "external.metrics.k8s.io/v1beta1"


def matchers(selector: str) -> str:
    """`status in (pending,processing)` in Prometheus' words"""
    found = re.findall(r"(\w+) in \(([^)]*)\)", selector)
    return ",".join(f'{name}=~"{values.replace(",", "|")}"' for name, values in found)


def ask_prometheus(selector: str) -> list[str]:
    query = os.environ["QUERY"].replace("<<.LabelMatchers>>", matchers(selector))
    address = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(address, timeout=10) as answer:
        return [one["value"][1] for one in json.load(answer)["data"]["result"]]


def resources() -> dict[str, object]:
    metric = {
        "name": os.environ["SERIES"],
        "singularName": "",
        "namespaced": True,
        "kind": "ExternalMetricValueList",
        "verbs": ["get"],
    }
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [metric]}


def values(name: str, selector: str) -> dict[str, object]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    items = [
        {"metricName": name, "metricLabels": {}, "timestamp": now, "value": value}
        for value in ask_prometheus(selector)
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": VERSION, "metadata": {}, "items": items}


class Adapter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        selector = urllib.parse.parse_qs(query).get("labelSelector", [""])[0]
        name = path.rsplit("/", 1)[-1]
        if path == f"/apis/{VERSION}":
            told = resources()
        elif "/namespaces/" in path and name == os.environ["SERIES"]:
            told = values(name, selector)
        else:
            self.send_error(404)
            return
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{os.environ['TLS']}/tls.crt", f"{os.environ['TLS']}/tls.key")
    server = ThreadingHTTPServer(("", 6443), Adapter)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
