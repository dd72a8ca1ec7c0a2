"""The fixtures of the browser tests, for this folder."""

from tests.support.browser.fixtures import (  # noqa: F401
    backstage,
    browser,
    chromium_path,
    complaints,
    forgive,
    hls_js,
    open_page,
    page,
    pytest_runtest_makereport,
    site,
)
