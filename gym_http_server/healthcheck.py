"""Asks the server on this machine whether it is healthy.

``python -m gym_http_server.healthcheck`` is what the container's HEALTHCHECK runs:
it prints one line and exits with 0 (healthy) or 1. It needs nothing but the standard
library, and the port where the server listens (``GHS_PORT``).
"""

import http.client
import os
import sys
import urllib.error
import urllib.request

DEFAULT_PORT = 5000
TIMEOUT_S = 3.0


def check(port: int, *, timeout_s: float = TIMEOUT_S) -> tuple[bool, str]:
    """Asks the server once.

    Args:
        port: Where the server listens on the loopback address.
        timeout_s: How long connecting, and each wait for bytes, may take.

    Returns:
        Whether the server is healthy, and one line that says so or why not.
    """
    url = f"http://127.0.0.1:{port}/healthz"
    # No proxy stands between a server and its own machine, whatever HTTP_PROXY says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return True, f"healthy: {url} answered {answer.status}"
    except urllib.error.HTTPError as error:
        error.close()
        return False, f"unhealthy: {url} answered {error.code}"
    except urllib.error.URLError as error:
        return False, f"unhealthy: {url}: {error.reason}"
    except (OSError, http.client.HTTPException) as error:
        return False, f"unhealthy: {url}: {error}"


def main() -> int:
    """Checks the port that ``GHS_PORT`` names and prints the outcome."""
    healthy, line = check(int(os.environ.get("GHS_PORT") or DEFAULT_PORT))
    print(line, flush=True)
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
