"""The measured claims, each a command: `python -m benchmarks.NAME [--json FILE]`."""
