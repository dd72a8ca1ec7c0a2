"""What is published (SPEC 2.1, 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, F, Max, Min, OuterRef, Q
from django.db.models.functions import Greatest, Length

from jobs.invariants import rule
from videos.invariants.terms import SEEN, SHOWN, differ
from videos.models import QualityProgress, QualityStatus, Rendition, RenditionKind, Transcode

FASTEST = 60
"""Pictures a second."""
EVEN = 1
"""Lines that a size may be above its source's, to be even."""


@rule("a rendition of the picture is a completed quality of what was published, and each of these has one")
def _completed() -> Iterable[Any]:
    completed = QualityProgress.objects.filter(status=QualityStatus.COMPLETED)
    rendition = Rendition.objects.filter(transcode=OuterRef("transcode"), name=OuterRef("quality"))
    quality = completed.filter(transcode=OuterRef("transcode"), quality=OuterRef("name"))
    unmade = completed.filter(~Exists(rendition), transcode__status__in=SEEN)
    picture = Rendition.objects.filter(kind=RenditionKind.VIDEO)
    unasked = picture.filter(~Exists(quality) | ~Q(transcode__status__in=SEEN))
    return [*unmade[:SHOWN], *unasked[:SHOWN]]


@rule(
    "what was published has sound exactly when its plan has",
    by_hand="encode the video again",
)
def _sound() -> Iterable[Any]:
    sound = Q(Exists(Rendition.objects.filter(transcode=OuterRef("pk"), kind=RenditionKind.AUDIO)))
    return Transcode.objects.filter(differ(sound, ~Q(plan__audio=[])), status__in=SEEN).defer("plan")


@rule(
    "a rendition has media, a checksum, a codec, a playlist of its own, and a peak not below its average",
    by_hand="encode the video again",
)
def _described() -> Iterable[Any]:
    media = Q(bytes__gt=0, segments__gt=0, average_bandwidth__gt=0, bandwidth__gte=F("average_bandwidth"))
    names = Q(checksum=64, playlist__startswith=F("name")) & ~Q(codecs="")
    return Rendition.objects.annotate(checksum=Length("sha256")).exclude(media & names)


@rule(
    "no picture is larger than its source, odd in width or height, or faster than 60 a second",
    by_hand="encode the video again",
)
def _picture() -> Iterable[Any]:
    wider = F("width") - F("transcode__video__width")
    higher = F("height") - F("transcode__video__height")
    pictures = Rendition.objects.filter(kind=RenditionKind.VIDEO).annotate(
        larger=Greatest(wider, higher), odd=F("width") % 2 + F("height") % 2
    )
    return pictures.exclude(larger__lte=EVEN, odd=0, width__gt=0, height__gt=0, frame_rate__lte=FASTEST)


@rule(
    "all renditions of a generation have one rate and the same segments; sound may have one fewer",
    by_hand="encode the video again",
)
def _aligned() -> Iterable[Any]:
    picture, sound = (Q(renditions__kind=kind) for kind in (RenditionKind.VIDEO, RenditionKind.AUDIO))
    spread = (
        Transcode.objects.order_by()
        .values("pk")
        .annotate(
            slowest=Min("renditions__frame_rate"),
            fastest=Max("renditions__frame_rate"),
            fewest=Min("renditions__segments", filter=picture),
            most=Max("renditions__segments", filter=picture),
            fewest_of_sound=Min("renditions__segments", filter=sound),
            most_of_sound=Max("renditions__segments", filter=sound),
        )
    )
    return spread.filter(
        Q(slowest__lt=F("fastest"))
        | Q(fewest__lt=F("most"))
        | Q(fewest_of_sound__lt=F("most") - 1)
        | Q(most_of_sound__gt=F("most"))
    )
