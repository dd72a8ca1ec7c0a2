"""What a container asks its own web server: `python -m project.probe` ends with 0 when /health answers 200."""

import os
import sys
from urllib.request import Request, urlopen

ADDRESS = "http://127.0.0.1:8000/health"


def main(address: str = ADDRESS) -> None:
    """Under the name that visitors use: the site answers to no other."""
    host = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip(" .*") or "localhost"
    try:
        urlopen(Request(address, headers={"Host": host}), timeout=4).close()
    except OSError as error:  # an answer that is not 2xx is one, too
        sys.exit(f"{address}: {error}")


if __name__ == "__main__":
    main()
