"""Serve the built book to this machine alone.

The pages load script modules, which browsers refuse to do from a file, so the book is
read through this server rather than by opening its files.
"""

import argparse
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parents[2] / "book" / "_build" / "html"


class Handler(SimpleHTTPRequestHandler):
    """Static files, with the types that a system's own table may lack or have wrong."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".woff2": "font/woff2",
    }

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Say nothing of what was served; errors are still logged."""


def make_server(site: Path, port: int) -> ThreadingHTTPServer:
    """A server of `site` on 127.0.0.1; OSError if the port is taken."""
    return ThreadingHTTPServer(
        ("127.0.0.1", port), partial(Handler, directory=str(site))
    )


def main(arguments: list[str]) -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args(arguments).port
    if not (SITE / "index.html").exists():
        print("There is no built book yet. Build it with:  make book", file=sys.stderr)
        return 1
    try:
        server = make_server(SITE, port)
    except OSError as error:
        print(
            f"Port {port} cannot be used ({error.strerror}). Choose another:  "
            f"make serve PORT={port + 1}",
            file=sys.stderr,
        )
        return 1
    with server:
        print(
            f"The book is at http://127.0.0.1:{server.server_port}/\nStop with Ctrl-C.",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
