"""The site's own pages; those of videos and channels are in videos/views.py."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from videos.models import Channel, Video
from videos.page_security import strict_policy

SHELF = 24
CHANNELS = 50


@require_safe
@strict_policy
def home(request: HttpRequest) -> HttpResponse:
    """What everybody may watch, the newest first."""
    videos = Video.objects.listed()
    context = {
        "channels": Channel.objects.filter(pk__in=videos.values("channel")).order_by("name")[:CHANNELS],
        "page": Paginator(videos.for_shelf(), SHELF).get_page(request.GET.get("page")),
    }
    return render(request, "home.html", context)
