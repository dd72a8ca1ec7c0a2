"""The manifests, for real: the site comes up, outlives its database and is replaced without a lost request; workers die
and drain.

It takes over a namespace of a cluster, so it runs where somebody asks for it: SPROCKET_KUBERNETES=1, with kubectl at a
cluster that has the image (SPROCKET_IMAGE) and a ReadWriteMany volume for the claim `media`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.processes import wait_until
from tests.support.sites.kubernetes import HOST, KUBECTL, NAMESPACE, Cluster
from tests.support.videos.video_site import clip

pytestmark = [
    pytest.mark.skipif(os.environ.get("SPROCKET_KUBERNETES") != "1", reason="SPROCKET_KUBERNETES=1 runs it"),
    pytest.mark.timeout(3600),
]

# Asks the Service again and again until it is told to stop by a file, and prints what went wrong.
VISITOR = f"""
import json, os, pathlib, time, urllib.request
address = f"http://{{os.environ['WEB_SERVICE_HOST']}}/health"
request = urllib.request.Request(address, headers={{"Host": "{HOST}", "X-Forwarded-Proto": "https"}})
asked, wrong = 0, []
while not pathlib.Path("/tmp/enough").exists():
    asked += 1
    try:
        urllib.request.urlopen(request, timeout=10).read()
    except Exception as error:
        wrong.append(repr(error))
    pathlib.Path("/tmp/asked").write_text(str(asked))
    time.sleep(0.05)
print(json.dumps({{"asked": asked, "wrong": wrong}}), flush=True)
"""

# shareProcessNamespace: process 1 is the pod's, not the worker's.
KILL_THE_WORKER = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if int(process.name) != os.getpid() and b"runworker" in (process / "cmdline").read_bytes().split(b"\\0"):
        os.kill(int(process.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    assert KUBECTL, "kubectl is not here"
    cluster = Cluster()
    namespaces = cluster.kubectl("get", "namespaces", "--output=name", namespace=None).split()
    assert f"namespace/{NAMESPACE}" not in namespaces, "somebody's site is in it already"
    try:
        cluster.start_database()
        cluster.create_secret()
        cluster.apply()
        cluster.kubectl("wait", "--for=condition=complete", "job/migrate", "--timeout=300s")
        cluster.kubectl("rollout", "status", "deployment/web", "--timeout=300s")
        cluster.kubectl("rollout", "status", "deployment/worker", "--timeout=300s")
        yield cluster
    finally:
        cluster.down()


def add_video(cluster: Cluster, name: str) -> None:
    """A minute: two chunks, long enough to be interrupted."""
    web = cluster.ready("web")[0]
    cluster.exec(web, "sh", "-c", f"cat > /tmp/{name}.mp4", given=clip(1500, size=(1280, 720)).read_bytes())
    cluster.exec(web, "python", "manage.py", "addvideo", f"/tmp/{name}.mp4")


def is_published(cluster: Cluster, name: str) -> bool:
    asked = (
        "from urllib.request import Request, urlopen; import os;"
        f"headers = {{'Host': '{HOST}', 'X-Forwarded-Proto': 'https'}};"
        f"address = f\"http://{{os.environ['WEB_SERVICE_HOST']}}/v/{name}/g1/master.m3u8\";"
        "print(urlopen(Request(address, headers=headers), timeout=30).read(7).decode())"
    )
    return cluster.exec(cluster.ready("web")[0], "python", "-c", asked).strip() == "#EXTM3U"


def test_the_site_is_as_the_manifests_say(cluster: Cluster) -> None:
    assert len(cluster.ready("web")) == 2
    cluster.scale("worker", 1)
    wait_until(lambda: cluster.status()["workers"] == 1, interval=1)
    budget = cluster.get("poddisruptionbudget", "web")
    assert budget["status"]["disruptionsAllowed"] == 1
    assert cluster.get("persistentvolumeclaim", "media")["status"]["phase"] == "Bound"
    assert cluster.get("ingress", "web")["spec"]["rules"][0]["host"] == HOST
    # Without a metric the number of workers stays what it is.
    scaler = wait_until(lambda: cluster.get("hpa", "worker"), interval=1)
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 10)
    # Nobody is root, and nothing but the volumes can be written to.
    for part in ("web", "worker"):
        pod = cluster.ready(part)[0]
        assert cluster.exec(pod, "id", "--user").strip() == "10001"
        written = cluster.exec(
            pod, "sh", "-c", "touch /srv/sprocket/site/x 2>&1 || touch /srv/sprocket/media/x && echo ok"
        )
        assert "Read-only file system" in written
        assert written.endswith("ok\n")


def test_a_video_is_published_although_a_worker_dies_and_another_drains(cluster: Cluster) -> None:
    cluster.scale("worker", 2)
    wait_until(lambda: cluster.status()["workers"] == 2, interval=1)
    add_video(cluster, "film")
    # One worker may take every chunk, so the one that dies is one that has some.
    victim = wait_until(lambda: cluster.runs("videos.encode"))[0]
    restarts = cluster.restarts(victim)
    cluster.exec(victim, "python", "-c", KILL_THE_WORKER)
    wait_until(lambda: cluster.restarts(victim) > restarts, interval=1)
    # A database that has just been started is given two minutes before it counts as proof that a session is gone.
    wait_until(lambda: cluster.status()["depth"] == 0, timeout=900, interval=2)
    interrupted = [ran for ran in cluster.attempts("videos.encode").values() if ran[0] == (victim, "lost")]
    assert interrupted, "it died in the middle of a chunk"
    assert all([outcome for _, outcome in ran] == ["lost", "completed"] for ran in interrupted), interrupted
    assert is_published(cluster, "film")

    # Between two numbers it would give itself back when it is asked to: this one is in the middle of its only one.
    wait_until(lambda: len(cluster.ready("worker")) == 2 and cluster.status()["workers"] == 2, interval=1)
    cluster.manage("enqueue", "demo.count", '{"to": 1, "pause": 30}')
    (busy,) = wait_until(lambda: cluster.runs("demo.count"))
    with subprocess.Popen(
        [str(KUBECTL), "--namespace", NAMESPACE, "logs", "--follow", busy], stdout=subprocess.PIPE, text=True
    ) as log:
        cluster.kubectl("delete", "pod", busy)  # returns when it is gone
        told = str(log.communicate(timeout=120)[0])
    assert "job(s) may finish" in told
    assert list(cluster.attempts("demo.count").values()) == [[(busy, "completed")]], "it has finished"
    wait_until(lambda: len(cluster.ready("worker")) == 2, interval=1)
    cluster.manage("check_invariants")  # fails if a rule is broken


# Down as up: the manifest waits for five minutes and then takes one worker a minute.
QUICKLY_DOWN = {
    "spec": {
        "behavior": {
            "scaleDown": {
                "stabilizationWindowSeconds": 15,
                "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
            }
        }
    }
}


def test_there_are_as_many_workers_as_there_is_work_for(cluster: Cluster) -> None:
    def wanted() -> int:
        return int(cluster.get("deployment", "worker")["spec"]["replicas"])

    scaler = (cluster.autoscaler(), "worker")
    with cluster.metrics():
        cluster.scale("worker", 1)
        cluster.kubectl("patch", *scaler, "--type=merge", "--patch", json.dumps(QUICKLY_DOWN))
        wait_until(lambda: cluster.get(*scaler)["status"].get("currentMetrics"), interval=2)
        before = set(cluster.attempts("demo.count"))
        # Twenty, and four for each worker; each of them takes a minute.
        cluster.manage("enqueue", "demo.count", '{"to": 60, "pause": 1}', "--count", "20")
        wait_until(lambda: wanted() == 5, interval=2)
        wait_until(lambda: len(cluster.ready("worker")) == 5, interval=2)
        wait_until(lambda: cluster.status()["depth"] == 0, timeout=600, interval=2)
        wait_until(lambda: wanted() == 1, interval=2)
        wait_until(lambda: cluster.status()["workers"] == 1, interval=2)
    counted = [runs for job, runs in cluster.attempts("demo.count").items() if job not in before]
    assert len(counted) == 20
    assert all(outcome != "lost" for runs in counted for _, outcome in runs), counted
    assert len({pod for runs in counted for pod, _ in runs}) > 1, "the new ones took their share"


def test_a_rollout_loses_no_request(cluster: Cluster) -> None:
    before = cluster.ready("web")
    cluster.run("visitor", "python", "-c", VISITOR)
    wait_until(lambda: cluster.exec("visitor", "sh", "-c", "cat /tmp/asked || true").strip(), interval=1)
    cluster.kubectl("rollout", "restart", "deployment/web")
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    wait_until(lambda: not set(before) & set(all_pods(cluster)), timeout=120, interval=1)
    cluster.exec("visitor", "touch", "/tmp/enough")
    wait_until(lambda: cluster.get("pod", "visitor")["status"]["phase"] == "Succeeded", interval=1)
    found = json.loads(cluster.kubectl("logs", "visitor"))
    assert found["asked"] > 50
    assert found["wrong"] == []


def all_pods(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.get("pods")["items"]]


def test_without_its_database_the_site_gets_no_visitors_and_is_not_restarted(cluster: Cluster) -> None:
    pods = cluster.ready("web") + cluster.ready("worker")
    restarts = {pod: cluster.restarts(pod) for pod in pods}
    cluster.pause_database()
    wait_until(lambda: not cluster.ready("web"), interval=1)
    cluster.resume_database()
    wait_until(lambda: len(cluster.ready("web")) == 2, interval=1)
    wait_until(lambda: cluster.status()["workers"] == len(cluster.ready("worker")), interval=1)
    assert {pod: cluster.restarts(pod) for pod in pods} == restarts


def test_an_upgrade_is_the_same_again(cluster: Cluster) -> None:
    """docs/upgrading.md"""
    cluster.kubectl("delete", "job", "migrate", "--ignore-not-found")
    cluster.apply()
    cluster.kubectl("wait", "--for=condition=complete", "job/migrate", "--timeout=300s")
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    assert len(cluster.ready("web")) == 2
