"""A bucket as the storage of the videos: what S3 does better than by Django's general means, and how it fails.

django-storages says where the bucket is and with which parameters objects are written. It has a connection for each
thread, which takes tens of milliseconds to make, and under ASGI every request is a thread of its own; so here is one
client for all (those are safe to share).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from storages.backends.s3 import S3Storage

from videos import storage
from videos.depot import Depot, StorageDown, StorageRefused

BLOCK = 1 << 20
_MISSING = ("NoSuchKey", "404")
_BUSY = ("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequestsException")
_PUBLIC = ("public-read", "public-read-write", "authenticated-read")
_lock = threading.Lock()


class S3Depot(Depot):
    """Media goes out by short-lived signed addresses of the bucket, playlists through the site."""

    def __init__(self, behind: S3Storage) -> None:
        super().__init__(behind)
        self._s3 = behind

    @property
    def _client(self) -> Any:
        with _lock:
            return self._shared

    @cached_property
    def _shared(self) -> Any:
        return self._s3.connection.meta.client

    def _key(self, name: str) -> str:
        return f"{self._s3.location.strip('/')}/{name}".lstrip("/")

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._s3.bucket_name, "Key": self._key(name)}

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        try:
            yield
        except (HTTPClientError, IncompleteReadError) as error:
            raise StorageDown(error) from error
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _MISSING:
                raise FileNotFoundError(str(error)) from error
            if status >= 500 or status == 429 or code in _BUSY:
                raise StorageDown(error) from error
            raise StorageRefused(error) from error
        except BotoCoreError as error:  # no credentials, a bad address
            raise StorageRefused(error) from error

    def problems(self) -> list[str]:
        s3, found = self._s3, []
        if not s3.bucket_name:
            found.append("it has no bucket_name.")
        if not s3.querystring_auth:
            found.append("querystring_auth is off: addresses of private videos would not be signed.")
        elif s3.custom_domain and not s3.cloudfront_signer:
            found.append(
                "custom_domain has no cloudfront_key: addresses of private videos would not be signed."
            )
        if s3.default_acl in _PUBLIC or s3.object_parameters.get("ACL") in _PUBLIC:
            found.append("its objects are public; leave default_acl empty.")
        if not s3.file_overwrite:
            found.append("file_overwrite is off: an attempt that is repeated could not write its files.")
        return found

    def signed_url(self, path: Path, *, seconds: int, method: str = "GET") -> str | None:
        name = storage.name_below(path)
        if self._s3.custom_domain:
            return str(self._s3.url(name, expire=seconds))
        with self.answering():
            return str(
                self._client.generate_presigned_url(
                    "head_object" if method == "HEAD" else "get_object",
                    Params=self._object(name),
                    ExpiresIn=seconds,
                )
            )

    def blocks(self, name: str) -> Iterator[bytes]:
        body = self._client.get_object(**self._object(name))["Body"]
        with contextlib.closing(body):
            yield from body.iter_chunks(BLOCK)

    def _pages(self, prefix: str, **options: Any) -> Iterator[dict[str, Any]]:
        listing = self._client.get_paginator("list_objects_v2")
        yield from listing.paginate(Bucket=self._s3.bucket_name, Prefix=self._key(prefix), **options)

    def _sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        above = len(self._key(prefix)) - len(prefix)
        for page in self._pages(f"{prefix}/"):
            for found in page.get("Contents", ()):
                yield found["Key"][above:], found["Size"]

    def _size(self, name: str) -> int | None:
        """By a listing: to a HEAD a wrong bucket would be a missing file."""
        for page in self._pages(name, PaginationConfig={"MaxItems": 1}):
            for found in page.get("Contents", ()):
                if found["Key"] == self._key(name):
                    return int(found["Size"])
        return None

    def _listed(self, prefix: str) -> tuple[list[str], list[str]]:
        start, folders = f"{prefix}/" if prefix else "", []
        for page in self._pages(start, Delimiter="/"):
            folders += [
                found["Prefix"].rstrip("/").rpartition("/")[2] for found in page.get("CommonPrefixes", ())
            ]
        return folders, []

    def _delete(self, prefix: str) -> None:
        for page in self._pages(f"{prefix}/"):
            found = [{"Key": found["Key"]} for found in page.get("Contents", ())]
            if found:
                answer = self._client.delete_objects(
                    Bucket=self._s3.bucket_name, Delete={"Objects": found, "Quiet": True}
                )
                for error in answer.get("Errors", ()):
                    raise StorageRefused(f"{error.get('Key')}: {error.get('Code')} {error.get('Message')}")

    def _copy(self, name: str, to: str) -> None:
        """Inside the bucket, with the type and all that was said about it."""
        self._client.copy_object(**self._object(to), CopySource=self._object(name))
