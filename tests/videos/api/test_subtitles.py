"""The API of subtitles: a file per language, made safe, replaced and removed; with the rights of the one who asks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.support.pages.videos_api_client import NOBODY, VIDEOS, bare, refused
from tests.support.pages.videos_api_client import _small_disk as _small_disk
from tests.support.queue.actors import race
from tests.support.videos.video_site import client_of
from videos.media.webvtt import MOST_BYTES, MOST_CUES
from videos.models import Subtitle, SubtitleSource, Video

SRT = "1\n00:00:01,000 --> 00:00:02,000\nZażółć gęślą jaźń <script>alert(1)</script>\n"

pytestmark = pytest.mark.django_db


@pytest.fixture
def film() -> Video:
    return bare("film")


def at(video: Video, language: str = "") -> str:
    return f"{VIDEOS}/{video.pk}/subtitles" + (f"/{language}" if language else "")


def put(client: Client, address: str, body: str | bytes = SRT, kind: str = "", **wire: Any) -> Any:
    return client.generic("PUT", address, body, content_type=kind or "application/x-subrip", **wire)


def test_subtitles_are_uploaded_listed_fetched_replaced_and_removed(
    film: Video, admin_client: Client
) -> None:
    made = put(admin_client, f"{at(film, 'pl')}?label=Polski")
    assert made.status_code == 201
    assert {**made.json(), "stored_at": ""} == {
        "language": "pl",
        "label": "Polski",
        "source": "uploaded",
        "stored_at": "",
    }
    fetched = admin_client.get(at(film, "pl"))
    assert fetched["Content-Type"].startswith("text/vtt")
    text = fetched.content.decode()
    assert text.startswith("WEBVTT")
    assert "Zażółć gęślą jaźń" in text
    assert "<script" not in text
    assert put(admin_client, at(film, "pl"), SRT.replace("Zażółć", "Dzień")).status_code == 200
    assert "Dzień" in admin_client.get(at(film, "pl")).content.decode()
    put(admin_client, at(film, "en"), "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n", "text/vtt")
    listed = admin_client.get(at(film)).json()["subtitles"]
    assert [(row["language"], row["source"]) for row in listed] == [("en", "uploaded"), ("pl", "uploaded")]
    assert admin_client.get(f"{VIDEOS}/{film.pk}").json()["subtitles"] == ["en", "pl"]
    assert admin_client.delete(at(film, "pl")).status_code == 204
    assert refused(admin_client.delete(at(film, "pl")), 404, "not_found")
    assert refused(admin_client.get(at(film, "pl")), 404, "not_found")
    assert [row["language"] for row in admin_client.get(at(film)).json()["subtitles"]] == ["en"]
    assert LogEntry.objects.count() == 4


def test_a_language_is_the_same_however_it_is_spelled(film: Video, admin_client: Client) -> None:
    assert put(admin_client, at(film, "pt-BR")).status_code == 201
    again = put(admin_client, at(film, "PT-br"))
    assert (again.status_code, again.json()["language"]) == (200, "pt-BR")
    assert admin_client.get(at(film, "pt-br")).status_code == 200
    assert admin_client.delete(at(film, "Pt-Br")).status_code == 204
    assert not film.subtitles.exists()


def test_what_was_recognised_can_be_replaced_and_removed(film: Video, admin_client: Client) -> None:
    for language in ("en", "de"):
        Subtitle.objects.create(
            video=film, language=language, webvtt="WEBVTT", source=SubtitleSource.RECOGNISED
        )
    assert put(admin_client, at(film, "en")).json()["source"] == "uploaded"
    assert admin_client.delete(at(film, "de")).status_code == 204


@pytest.mark.parametrize(
    ("encoding", "kind"),
    [
        ("utf-8", "text/plain"),
        ("utf-8-sig", ""),
        ("utf-16", "text/plain"),
        ("utf-8", "text/vtt; charset=utf-8"),
        ("cp1250", "application/x-subrip; charset=windows-1250"),
        ("iso-8859-2", 'text/plain; charset="ISO-8859-2"'),
    ],
)
def test_charsets(film: Video, admin_client: Client, encoding: str, kind: str) -> None:
    assert put(admin_client, at(film, "pl"), SRT.encode(encoding), kind).status_code == 201
    assert "Zażółć gęślą jaźń" in film.subtitles.get().webvtt


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("text/vtt; charset=utf-8", SRT.encode("cp1250"), "charset"),
        ("text/vtt; charset=punycode", b"x", "charset"),
        ("text/vtt; charset=base64", b"x", "charset"),
        ("text/vtt; charset=iso-8859-99", b"x", "charset"),
        ("text/vtt; charset=" + "x" * 5000, b"x", "charset"),
    ],
)
def test_charsets_that_are_not_there(
    film: Video, admin_client: Client, kind: str, body: bytes, field: str
) -> None:
    assert refused(put(admin_client, at(film, "pl"), body, kind), 422, "invalid", field)
    assert not film.subtitles.exists()


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"nothing", b"\0" * 1000, b"\xff\xfe", bytes(range(256)) * 40, b"GIF89a", b"WEBVTT\n\n"),
        b"1\n99:99:99,999 --> 00:00:01,000\nbackwards\n",
        b"{" * 100_000,
        b"\n \n" * 300_000,
        b"00:00.000 --> 00:00.001\nx\n\n" * (MOST_CUES + 1),
    ],
)
def test_what_holds_no_subtitles_is_refused(film: Video, admin_client: Client, body: bytes) -> None:
    assert refused(put(admin_client, at(film, "en"), body), 422, "refused", "body: ")
    assert not film.subtitles.exists()


def test_sizes_and_forms(film: Video, admin_client: Client) -> None:
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size: int = -1) -> bytes:
            self.taken += size
            return b"x" * size

    endless = Endless()
    wire: dict[str, Any] = {"wsgi.input": endless, "CONTENT_LENGTH": str(MOST_BYTES + 1)}
    assert refused(put(admin_client, at(film, "en"), b"", **wire), 413, "too_large")
    assert endless.taken == 0
    wire["CONTENT_LENGTH"] = "9" * 30
    assert refused(put(admin_client, at(film, "en"), b"", **wire), 413, "too_large")
    wire = {"wsgi.input": io.BytesIO(SRT.encode()), "CONTENT_LENGTH": "100000"}
    assert refused(put(admin_client, at(film, "en"), b"", **wire), 400, "interrupted")
    form = admin_client.put(
        at(film, "en"), b"--b\r\n\r\n" + SRT.encode(), content_type="multipart/form-data; boundary=b"
    )
    assert refused(form, 415, "unsupported_type")
    file = SimpleUploadedFile("a.srt", SRT.encode())
    assert refused(admin_client.post(at(film, "en"), {"file": file}), 405, "method_not_allowed")
    assert not film.subtitles.exists()


@pytest.mark.parametrize("language", ["x", "english!", "en_GB", "a" * 30, "%00", "en%0a", "-", "é"])
def test_what_is_no_language(film: Video, admin_client: Client, language: str) -> None:
    assert refused(put(admin_client, at(film, language)), 422, "invalid", "language")
    assert refused(admin_client.get(at(film, language)), 404, "not_found")
    assert refused(admin_client.delete(at(film, language)), 404, "not_found")


def test_a_label_that_is_none_is_named(film: Video, admin_client: Client) -> None:
    assert refused(put(admin_client, f"{at(film, 'en')}?label={'x' * 101}"), 422, "invalid", "label")
    assert refused(put(admin_client, f"{at(film, 'en')}?label=%00"), 422, "invalid", "label")


def test_a_video_that_is_not_there(admin_client: Client) -> None:
    for nowhere in (NOBODY, "x", "%00"):
        address = f"{VIDEOS}/{nowhere}/subtitles"
        assert refused(admin_client.get(address), 404, "not_found")
        assert refused(put(admin_client, f"{address}/en"), 404, "not_found")
        assert refused(admin_client.delete(f"{address}/en"), 404, "not_found")


def test_who_may(film: Video) -> None:
    def verdicts(client: Client) -> tuple[int, ...]:
        asked = client.get(at(film)).status_code
        return asked, put(client, at(film, "en"), b"x").status_code, client.delete(at(film, "de")).status_code

    rights = ("view_video", "add_subtitle", "delete_subtitle")
    assert verdicts(Client()) == (401, 401, 401)
    assert verdicts(client_of(*rights, staff=False)) == (403, 403, 403)
    assert verdicts(client_of("view_video", "change_video", "view_subtitle")) == (200, 403, 403)
    assert verdicts(client_of("add_subtitle", "delete_subtitle")) == (403, 403, 403)
    assert verdicts(client_of("view_video", "add_subtitle")) == (200, 422, 403)
    assert verdicts(client_of(*rights)) == (200, 422, 404)
    client = client_of(*rights, csrf=True)
    assert refused(put(client, at(film, "en")), 403, "csrf")
    assert refused(client.delete(at(film, "en")), 403, "csrf")


@pytest.mark.django_db(transaction=True)
def test_uploads_at_the_same_time_leave_one_of_them(film: Video, admin_client: Client) -> None:
    cookies = admin_client.cookies

    def send(number: int) -> int:
        client = Client()
        client.cookies = cookies
        language = "en" if number % 2 else "EN"
        return int(put(client, at(film, language), SRT.replace("Zażółć", f"No {number}")).status_code)

    answers = race([lambda number=number: send(number) for number in range(4)])  # type: ignore[misc]
    assert sorted(answers) == [200, 200, 200, 201]
    assert film.subtitles.count() == 1
