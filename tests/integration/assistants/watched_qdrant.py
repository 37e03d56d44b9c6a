"""A way to Qdrant that notes every request, for tests that show that there was none."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

_OWN = {"host", "connection", "content-length", "transfer-encoding", "content-encoding"}


class WatchedQdrant:
    """
    Passes requests on to the engine.

    `requests` are those that went through, `spans` their times by path; searches take `search_seconds` longer.
    """

    def __init__(self, upstream: str) -> None:
        watched = self
        self.requests: list[str] = []
        self.spans: list[tuple[str, float, float]] = []
        self.search_seconds = 0.0
        self._client = httpx.Client(base_url=upstream, timeout=30)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                watched.requests.append(f"{self.command} {self.path}")
                started = time.monotonic()
                time.sleep(watched.search_seconds if "/query" in self.path else 0)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
                answer = watched._client.request(self.command, self.path, content=body, headers=headers)
                watched.spans.append((self.path, started, time.monotonic()))
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in _OWN:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - http.server's names

            def log_message(self, *_) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True  # connections that are kept open do not hold up the end
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        self._client.close()
