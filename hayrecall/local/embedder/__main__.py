"""
Serve the embedder on loopback.

`python -m hayrecall.local.embedder [--port 0] [--ports-file FILE] [--cache-dir DIR]`
"""

import argparse
import os
import sys
from pathlib import Path

# Before onnxruntime and its libraries start threads: waiting ones sleep, and do not keep a core busy.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from hayrecall.local import loopback
from hayrecall.local.embedder.encoder import Encoder
from hayrecall.local.embedder.http import EmbeddingApi


def main(arguments: list[str]) -> int:
    """
    Serve until SIGTERM.

    :param arguments: Command line without the program's name.
    :returns: Exit code: 0, or 1 with a sentence on stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m hayrecall.local.embedder", description="Embedder on loopback.")
    parser.add_argument("--port", type=int, default=0, help="port on loopback, 0 for any free one")
    parser.add_argument("--ports-file", type=Path, help="where to write url and pid once requests are answered")
    parser.add_argument("--cache-dir", type=Path, default=_default_cache(), help="where the model's graph is kept")
    parser.add_argument("--threads", type=int, help="cores to use, all by default")
    chosen = parser.parse_args(arguments)
    try:
        api = EmbeddingApi(Encoder(chosen.cache_dir, threads=chosen.threads))
        loopback.serve(api.app(), port=chosen.port, ports_file=chosen.ports_file, path="/v1")
    except OSError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "hayrecall", "embedder")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
