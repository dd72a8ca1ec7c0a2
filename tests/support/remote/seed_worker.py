"""A worker written from the customer's first document (seed 001) alone, with nothing but urllib.

Paths, headers and fields are the seed's: register, heartbeat, claim, progress, complete, fail; 409 means that the claim
has expired and the job is abandoned; output goes up as a tar.gz. Where the seed is silent (what a claim answers, how
the source comes down), it is docs/api.md. How a film is encoded is no part of the protocol: `videos.media` does that.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

from videos import manifests
from videos.manifests import Manifest
from videos.media import encode, ffmpeg, foreign_source, serial, thumbnails
from videos.media.examine import examine
from videos.media.plan import EncodePlan
from videos.media.source import Limits


class Conflict(Exception):
    """409: the claim has expired, or somebody else has the job."""


class SeedWorker:
    def __init__(self, api: str, secret: str, folder: Path, **told: Any) -> None:
        self._api, self._folder = api, folder
        self.statuses: list[str] = []
        """How each of its jobs ended."""
        given = self._post("register", told, {"X-Admin-Secret": secret})
        self.worker_id = given["worker_id"]
        self._key = {"X-Worker-API-Key": given["api_key"]}

    def heartbeat(self, **told: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._post("heartbeat", told or None, self._key)
        return answer

    def work(self) -> None:
        """Claim and run one job after the other until there is none."""
        self.heartbeat(status="active")
        while claimed := self._post("claim", None, self._key)["jobs"]:
            (job,) = claimed
            self.statuses.append(self.run(job))
            self.heartbeat()

    def run(self, job: dict[str, Any]) -> str:
        own = {"job_id": job["job_id"]}
        try:
            self._post("progress", {**own, "current_step": job["type"], "progress_percent": 0}, self._key)
            self._do(job)
            self._post("progress", {**own, "current_step": "done", "progress_percent": 100}, self._key)
            return str(self._post("complete", own, self._key)["status"])
        except Conflict:
            return "abandoned"
        except Exception as error:
            return str(self._post("fail", {**own, "error_message": repr(error)}, self._key)["status"])

    # -- requests ----------------------------------------------------------------------------------------------------

    def _post(self, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        return json.loads(self._send("POST", path, data, {**headers, **kind}))

    def _send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> bytes:
        request = urllib.request.Request(f"{self._api}/worker/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read())
            raise (Conflict if error.code == 409 else RuntimeError)(error.code, problem) from None

    def _get(self, job: dict[str, Any], what: str) -> bytes:
        return self._send("GET", f"jobs/{job['job_id']}/{what}", None, self._held(job))

    def _held(self, job: dict[str, Any]) -> dict[str, str]:
        return {**self._key, "X-Lease-Token": str(job["token"])}

    def _upload(self, job: dict[str, Any], folder: Path, names: list[str]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
            for name in names:
                tar.add(folder / name, name)
        body = packed.getvalue()
        headers = {"X-Content-SHA256": hashlib.sha256(body).hexdigest(), "Content-Type": "application/gzip"}
        self._send("POST", f"jobs/{job['job_id']}/archive", body, {**self._held(job), **headers})

    # -- what is to be done --------------------------------------------------------------------------------------------

    def _do(self, job: dict[str, Any]) -> None:
        told = json.loads(self._get(job, "order"))
        if told["done"]:
            return
        order, folder = told["order"], self._folder / job["job_id"]
        folder.mkdir(parents=True)
        match job["type"]:
            case "videos.probe":
                info = examine(self._source(job, folder), limits=Limits(**order["limits"]))
                found = json.dumps(serial.to_json(foreign_source.thinned(info)))
                (folder / "source.json").write_text(found)
                self._upload(job, folder, ["source.json"])
            case "videos.encode":
                plan = EncodePlan.from_json(order["plan"])
                wanted = tuple(r for r in plan.renditions if r.name in order["qualities"])
                only = replace(plan, renditions=wanted)
                files = {
                    "source": self._source(job, folder),
                    "into": folder,
                    "ffmpeg_binary": ffmpeg.binary(),
                }
                made = encode.encode_chunk(only, order["number"], **files)
                name = manifests.chunk_name(order["number"])
                self._hand_in(job, folder, name, plan, made, [r.name for r in wanted])
            case "videos.audio":
                plan = EncodePlan.from_json(order["plan"])
                files = {
                    "source": self._source(job, folder),
                    "into": folder,
                    "ffmpeg_binary": ffmpeg.binary(),
                }
                made = encode.encode_audio(plan, order["number"], **files)
                track = next(track for track in plan.audio if track.number == order["number"])
                name = manifests.audio_name(order["number"])
                self._hand_in(job, folder, name, plan, made, [track.folder(rate) for rate in track.bitrates])
            case "videos.thumbnail":
                plan = EncodePlan.from_json(order["plan"])
                for name in thumbnails.needed(plan):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_bytes(self._get(job, f"files/{name}"))
                pictures = thumbnails.make(plan, folder)
                self._upload(job, folder, [file.name for file in (pictures.poster, *pictures.sheets)])
            case _:  # what the site does itself
                token = {"token": job["token"]}
                while not self._post(f"jobs/{job['job_id']}/proceed", token, self._key)["done"]:
                    pass

    def _source(self, job: dict[str, Any], folder: Path) -> Path:
        path = folder / "source"
        path.write_bytes(self._get(job, "source"))
        return path

    def _hand_in(
        self, job: dict[str, Any], folder: Path, name: str, plan: EncodePlan, made: Any, parts: list[str]
    ) -> None:
        """The segments, and the manifest that lists them."""
        manifest = Manifest(plan=plan.digest(), frames=made.frames, parts=tuple(parts), files=made.files)
        manifests.write(folder, name, manifest)
        self._upload(job, folder, [*(file.name for file in made.files), manifests.address(name)])
