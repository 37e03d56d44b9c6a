"""One TLS context for all clients of a process."""

import functools
import ssl

import httpx


@functools.cache
def shared_tls_context() -> ssl.SSLContext:
    """
    Give the context that httpx makes for a client that is told nothing.

    Reading the authorities' certificates takes 20 ms, and a server opens dozens of clients at its start.

    :returns: The same context at each call; `SSL_CERT_FILE` and `SSL_CERT_DIR` are read at the first.
    """
    return httpx.create_ssl_context()
