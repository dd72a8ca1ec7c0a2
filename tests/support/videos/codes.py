"""Which refusal or failure it was, without its words.

`pytest.raises(UploadRefused, check=coded("empty"))`, `assert error_types(job__type="videos.encode") == {"DiskFull"}`
"""

from collections.abc import Callable
from typing import Any

from jobs.models import Attempt


def coded(*codes: str) -> Callable[[BaseException], bool]:
    """True for an exception whose `code` is one of these."""

    def check(error: BaseException) -> bool:
        found = getattr(error, "code", None)
        assert found in codes, f"the code is {found!r}, not one of {codes}: {error}"
        return True

    return check


def error_types(**which: Any) -> set[str]:
    """The names of the exceptions that ended these attempts."""
    failed = Attempt.objects.filter(**which).exclude(error_type="")
    return set(failed.values_list("error_type", flat=True))
