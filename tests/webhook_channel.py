"""The other end of a webhook: what the experts' channel gets, over real HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Channel:
    """A webhook's other end; `status` is what it answers."""

    def __init__(self) -> None:
        channel = self
        self.status = 200
        self.received: list[tuple[dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                channel.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(channel.status)
                self.end_headers()

            def log_message(self, *_) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def last(self) -> dict:
        return json.loads(self.received[-1][1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)
