"""`hayrecall check`."""


def check() -> None:
    """
    Check settings, manifest and pipeline files without starting anything.

    Says what is wrong with file, line and what to change (exit code 2), or which pipelines are served.
    """
    from hayrecall.local.check import check as run  # noqa: PLC0415
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    raise SystemExit(run())
