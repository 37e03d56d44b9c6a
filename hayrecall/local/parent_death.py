"""Let a child process go down with the process that started it, even when that is killed with SIGKILL."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Bound at import: between fork and exec nothing may be loaded.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def follow_parent() -> None:
    """
    Ask the kernel for a SIGTERM when the parent dies; survives exec. Elsewhere than on Linux it does nothing.

    The parent is the *thread* that forked: call what uses this from the main thread only.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
