"""
Serve a data folder on loopback, or work on one that is not served.

`python -m hayrecall.local.engine --dir DIR [--port 0] [--ports-file FILE] [--api-key KEY]`
`python -m hayrecall.local.engine optimize --dir DIR`
`python -m hayrecall.local.engine backup --dir DIR --to FOLDER`
"""

import argparse
import os
import sys
from pathlib import Path

from hayrecall.local import loopback
from hayrecall.local.engine import snapshots
from hayrecall.local.engine.data_folder import LEAST_FREE_BYTES, DataFolder
from hayrecall.local.engine.folder_lock import FolderInUseError
from hayrecall.local.engine.http import QdrantApi
from hayrecall.local.engine.service import Service


def main(arguments: list[str]) -> int:
    """
    Run one command.

    :param arguments: Command line without the program's name.
    :returns: Exit code: 0, or 1 with a sentence on stderr.
    """
    chosen = _parser().parse_args(arguments)
    folder = DataFolder(chosen.dir, least_free_bytes=chosen.least_free_bytes)
    try:
        folder.open()
    except (FolderInUseError, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    if chosen.command == "serve":
        try:
            api = QdrantApi(Service(folder), api_key=chosen.api_key)
            loopback.serve(api.app(), port=chosen.port, ports_file=chosen.ports_file)
        except OSError as failure:
            sys.stderr.write(f"port {chosen.port}: {failure.strerror}\n")
            return 1
        return 0
    try:
        if chosen.command == "optimize":
            folder.optimize()
        else:
            folder.flush()
            snapshots.copy_folder(folder.root, chosen.to)
    except OSError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    finally:
        folder.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hayrecall.local.engine", description="Embedded Qdrant engine.")
    parser.add_argument("command", nargs="?", choices=["serve", "optimize", "backup"], default="serve")
    parser.add_argument("--dir", type=Path, required=True, help="data folder")
    parser.add_argument("--port", type=int, default=0, help="port on loopback, 0 for any free one")
    parser.add_argument("--ports-file", type=Path, help="where to write url and pid once requests are answered")
    parser.add_argument("--api-key", default=os.environ.get("HAYRECALL_QDRANT_API_KEY"), help="key clients must send")
    parser.add_argument("--least-free-bytes", type=int, default=LEAST_FREE_BYTES, help="refuse growing below this")
    parser.add_argument("--to", type=Path, help="backup: folder that does not exist yet")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
