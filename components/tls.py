"""One TLS context for all clients of a process."""

import functools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import httpx


class OpensClient(Protocol):
    """A component of Haystack's that makes itself an HTTP client with these settings when it is warmed up."""

    http_client_kwargs: dict[str, Any] | None


@functools.cache
def shared_tls_context() -> ssl.SSLContext:
    """
    Give the context that httpx makes for a client that is told nothing.

    Reading the authorities' certificates takes 20 ms, and a server opens dozens of clients at its start.

    :returns: The same context at each call; `SSL_CERT_FILE` and `SSL_CERT_DIR` are read at the first.
    """
    return httpx.create_ssl_context()


@contextmanager
def sharing_tls(component: OpensClient) -> Iterator[None]:
    """
    Let a component open its client with the shared context, unless its settings name another one.

    :param component: Warmed up inside the block; its settings are afterwards what they were.
    """
    settings = component.http_client_kwargs
    # Redirects are followed as OpenAI's client does when it makes its own HTTP client.
    component.http_client_kwargs = {"verify": shared_tls_context(), "follow_redirects": True, **(settings or {})}
    try:
        yield
    finally:
        component.http_client_kwargs = settings
