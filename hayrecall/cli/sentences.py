"""What a command says when something that we know goes wrong."""

import sys
from types import TracebackType


class Sentences:
    """Ends the process with one sentence on stderr where an error of ours arrives: exit code 2 or 1, no traceback."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """
        Translate an error.

        :raises SystemExit: With 2 for a wrong configuration, 1 for any other error of ours.
        """
        # The error tree takes long to import, and is there already if one of its errors was raised.
        errors = sys.modules.get("contracts.errors")
        if errors is None or not isinstance(error, errors.HayrecallError):
            return
        sys.stderr.write(f"hayrecall: {error}\n")
        raise SystemExit(2 if isinstance(error, errors.ConfigurationError) else 1) from None
