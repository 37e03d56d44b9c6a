"""`hayrecall serve`."""


def serve() -> None:
    """
    Run the HTTP server only, against the NATS, Qdrant, embedder and models that the settings name.

    Needs HAYRECALL_NATS_URL and HAYRECALL_QDRANT_URL. Prints `ready http://HOST:PORT`.
    """
    from hayrecall.local.environment import load_served_settings  # noqa: PLC0415

    settings = load_served_settings("serve")
    from hayrecall.server.app import run  # noqa: PLC0415 - takes long, and is in vain when a setting is wrong

    raise SystemExit(run(settings))
