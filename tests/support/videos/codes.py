"""Which refusal it was, without its words: `pytest.raises(UploadRefused, check=coded("empty"))`."""

from collections.abc import Callable


def coded(*codes: str) -> Callable[[BaseException], bool]:
    """True for an exception whose `code` is one of these."""

    def check(error: BaseException) -> bool:
        found = getattr(error, "code", None)
        assert found in codes, f"the code is {found!r}, not one of {codes}: {error}"
        return True

    return check
