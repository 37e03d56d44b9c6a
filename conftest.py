"""Run the usage example of every component docstring as a test."""

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["components/*.py"],
    document_types={".py": PythonDocStringDocument},
).pytest()
