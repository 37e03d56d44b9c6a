"""A part for tests of the supervisor: listens, and tells where, like the real ones; ends at once if told to."""

import argparse
import http.server
import json
import os
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--ports-file", type=Path)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--stubborn", action="store_true")
arguments = parser.parse_args()

if arguments.fail:
    sys.exit("the reason why it ends")


def end(*_):
    sys.stdout.write(f"{time.monotonic():020.6f}\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, signal.SIG_IGN if arguments.stubborn else end)
server = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), http.server.BaseHTTPRequestHandler)
draft = arguments.ports_file.with_suffix(".tmp")
draft.write_text(json.dumps({"url": f"http://127.0.0.1:{server.server_address[1]}", "pid": os.getpid()}))
draft.replace(arguments.ports_file)
server.serve_forever()
