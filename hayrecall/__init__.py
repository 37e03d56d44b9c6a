"""Chat over an organization's documents that remembers people."""

__version__ = "0.1.0"
