"""Run the usage example of every component docstring as a test, and no test with the settings of whoever runs it."""

import os

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser

# Nothing reports home either: libraries look at this when they are imported, so it stands before any of ours is.
for name in [name for name in os.environ if name.startswith("HAYRECALL_") and name != "HAYRECALL_QDRANT_URL"]:
    del os.environ[name]
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "false", "MEM0_TELEMETRY": "False"}
os.environ |= {"HAYRECALL_LLM_API_KEY": "unused", "HAYRECALL_EMBEDDING_API_KEY": "unused"}  # as the commands do

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["components/*.py"],
    document_types={".py": PythonDocStringDocument},
).pytest()
