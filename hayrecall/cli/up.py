"""`hayrecall up`."""


def up() -> None:
    """
    Run everything on this machine.

    Starts what no address is set for (NATS, the Qdrant engine, an embedder, a local demo model), then the server and
    the writer, and prints `ready http://HOST:PORT`. Data is kept in HAYRECALL_DATA_DIR (.hayrecall). Ctrl-C stops it.
    """
    from contracts.settings import Settings  # noqa: PLC0415
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415
    from hayrecall.local.up import up as run  # noqa: PLC0415

    export_dotenv()
    raise SystemExit(run(Settings.load()))
