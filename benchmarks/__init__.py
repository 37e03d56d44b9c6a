"""The measured claims, each a command: `python -m benchmarks.NAME [--json FILE]`."""

import conftest  # noqa: F401 - the environment of the tests, before any library looks at it
