"""
The local model behind the OpenAI chat API on loopback: llama.cpp's own server, in this process.

    python -m hayrecall.local.model_server MODEL.gguf --port 0 --ports-file FILE --ctx 8192

The key that clients must send is taken from HAYRECALL_LLM_API_KEY, because anybody can read command lines.
"""

import argparse
import json
import os
import signal
import threading
from pathlib import Path

# Before xllamacpp loads libgomp: its threads spin otherwise, and with any other work on the cores everything stalls.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import xllamacpp

MODEL_NAME = "local"
_PARALLEL_REQUESTS = 2
_PROMPT_CACHE_MIB = 512


def main() -> None:
    """Load the model, answer requests until SIGTERM or SIGINT, and end with exit code 0."""
    arguments = _parse()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())

    server = xllamacpp.Server(_parameters(arguments))  # returns when it listens
    announcement = {"url": f"{server.listening_address}/v1", "pid": os.getpid(), "model": MODEL_NAME}
    draft = arguments.ports_file.with_suffix(".tmp")
    draft.write_text(json.dumps(announcement))
    draft.replace(arguments.ports_file)
    stopping.wait()
    arguments.ports_file.unlink(missing_ok=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hayrecall.local.model_server")
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--port", type=int, default=0, help="0 = any free one")
    parser.add_argument("--ports-file", type=Path, required=True, help="where the address is written when it listens")
    parser.add_argument("--ctx", type=int, default=8192, help="context window in tokens, shared by parallel requests")
    return parser.parse_args()


def _parameters(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(arguments.model)
    parameters.model_alias = {MODEL_NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port
    parameters.n_ctx = arguments.ctx
    parameters.n_parallel = _PARALLEL_REQUESTS
    parameters.kv_unified = True  # each request may use the whole window, not its share of it
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.cache_ram_mib = _PROMPT_CACHE_MIB
    parameters.ui = False
    parameters.endpoint_slots = False  # shows the prompts of others
    parameters.cors_origins = ""
    parameters.verbosity = 1
    if key := os.environ.get("HAYRECALL_LLM_API_KEY"):
        parameters.api_keys = [key]
    return parameters


if __name__ == "__main__":
    main()
