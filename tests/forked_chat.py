"""
`hayrecall serve` again and again, without its imports each time: `python -m tests.forked_chat`.

Each line on the standard input holds settings; it starts one server with them, and the next line is read when that one
is gone. Says `pid N`, then what the server says, then `gone CODE`.
"""

import asyncio
import json
import os
import sys

import hayrecall.server.app
from hayrecall.cli.serve import serve
from hayrecall.local.parent_death import follow_parent
from hayrecall.server.first_use import warm_up_process

__all__ = ["hayrecall"]


def main() -> None:
    follow_parent()
    asyncio.run(warm_up_process())
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            follow_parent()
            os.environ |= json.loads(line)
            serve()
        print(f"pid {pid}", flush=True)  # noqa: T201
        _, status = os.waitpid(pid, 0)
        print(f"gone {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
