"""A real S3 API over HTTP: moto's server as a process of its own, with a bucket, and keys that it demands.

Signatures and rights are checked as Amazon does (moto: INITIAL_NO_AUTH_ACTION_COUNT): a request without a key, or with
that of somebody who has no right, is refused. moto knows signatures in a header only; `Gate` checks those in an
address, and their time. What it holds is in its memory.
"""

import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import boto3
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from tests.support import ROOT
from tests.support.processes import free_port, wait_until

REGION = "us-east-1"
BUCKET = "films"
BUSY = "/-/busy"
SET_UP = 6
"""The calls below that are made before it asks who calls."""
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


class S3Server:
    def __init__(self) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="sprocket-s3-", suffix=".log")  # noqa: SIM115
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.servers.s3_server", str(self.port)],
            cwd=ROOT,
            env=os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": str(SET_UP)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_until(self._accepts, timeout=60)
        self._set_up()

    def _accepts(self) -> bool:
        assert self._process.poll() is None, Path(self._log.name).read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _set_up(self) -> None:
        iam = self._open("iam", "nobody", "nothing")
        iam.create_user(UserName="site")
        iam.put_user_policy(UserName="site", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
        self.key = iam.create_access_key(UserName="site")["AccessKey"]
        iam.create_user(UserName="stranger")
        self.other_key = iam.create_access_key(UserName="stranger")["AccessKey"]
        self.client = self.client_of(self.key)
        self.client.create_bucket(Bucket=BUCKET)

    def _open(self, service: str, key: str, secret: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(
                s3={"addressing_style": "path"}, signature_version="s3v4" if service == "s3" else None
            ),
        )

    def client_of(self, key: dict[str, str]) -> Any:
        return self._open("s3", key["AccessKeyId"], key["SecretAccessKey"])

    @property
    def environment(self) -> dict[str, str]:
        """For processes of the project."""
        return {
            "S3_BUCKET": BUCKET,
            "S3_PREFIX": "site/videos",
            "S3_ENDPOINT_URL": self.url,
            "S3_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": self.key["SecretAccessKey"],
            "VIDEOS_STORAGE": "s3",
        }

    def names(self) -> dict[str, int]:
        """Every object with its size."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", ())}

    def body(self, name: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return data

    def plain_url(self, name: str) -> str:
        return f"{self.url}/{BUCKET}/{name}"

    def empty(self) -> None:
        for name in self.names():
            self.client.delete_object(Bucket=BUCKET, Key=name)

    def be_busy(self, requests_refused: int) -> None:
        """Answer so many requests with 503 SlowDown; then be as before."""
        assert fetch(f"{self.url}{BUSY}?{requests_refused}").status_code == 200

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def fetch(url: str) -> requests.Response:
    return requests.get(url, timeout=30)


# -- the process -------------------------------------------------------------------------------------------------------


class Gate:
    """Signed addresses (SigV4 in the query): refused when the signature is wrong or its time is over, otherwise passed
    on with a signature in the header."""

    def __init__(self, moto: Callable[..., Iterable[bytes]], secret_of: Callable[[str], str | None]) -> None:
        self._moto = moto
        self._secret_of = secret_of
        self._busy = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == BUSY:
            self._busy = int(environ["QUERY_STRING"])
            start("200 OK", [])
            return []
        if self._busy > 0:
            self._busy -= 1
            return _refuse(start, "SlowDown", "503 Slow Down")
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        if "X-Amz-Signature" not in query:
            return self._moto(environ, start)
        key, _, region, service, _ = query["X-Amz-Credential"].split("/")
        secret = self._secret_of(key)
        if secret is None or query.pop("X-Amz-Signature") != self._signature(environ, query, secret):
            return _refuse(start, "SignatureDoesNotMatch")
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if datetime.now(UTC) > signed + timedelta(seconds=int(query["X-Amz-Expires"])):
            return _refuse(start, "AccessDenied")
        address = f"http://{environ['HTTP_HOST']}{quote(environ['PATH_INFO'])}"
        request = AWSRequest(environ["REQUEST_METHOD"], address, headers={"host": environ["HTTP_HOST"]})
        S3SigV4Auth(Credentials(key, secret), service, region).add_auth(request)
        headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        return self._moto({**environ, **headers, "QUERY_STRING": ""}, start)

    @staticmethod
    def _signature(environ: dict[str, Any], query: dict[str, str], secret: str) -> str:
        scope = query["X-Amz-Credential"].partition("/")[2]
        canonical = "\n".join(
            [
                environ["REQUEST_METHOD"],
                quote(environ["PATH_INFO"]),
                "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query)),
                f"host:{environ['HTTP_HOST']}\n",
                query["X-Amz-SignedHeaders"],
                "UNSIGNED-PAYLOAD",
            ]
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{scope}\n{digest}"
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()


def _refuse(start: Callable[..., Any], code: str, status: str = "403 Forbidden") -> list[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code></Error>".encode()]


def main(port: int) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.iam.models import iam_backends
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    def secret_of(key: str) -> str | None:
        users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].users.values()
        keys = (own for user in users for own in user.access_keys)
        return next((own.secret_access_key for own in keys if own.access_key_id == key), None)

    app = Gate(DomainDispatcherApplication(create_backend_app), secret_of)
    run_simple("127.0.0.1", port, app, threaded=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
