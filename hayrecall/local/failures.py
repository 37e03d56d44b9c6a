"""What can go wrong while the parts of this machine start and run; each ends a command with exit code 1."""

from contracts.errors import HayrecallError


class LocalError(HayrecallError):
    """Something on this machine keeps a part from running; the message says what to do."""


class PartFailedError(LocalError):
    """A part ended, or did not become ready in time."""


class FolderInUseError(LocalError):
    """Another process works in the folder."""


class ModelDownloadError(LocalError):
    """The local model could not be fetched."""
