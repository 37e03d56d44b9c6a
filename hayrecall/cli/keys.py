"""`hayrecall keys add | list | revoke`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Manage the API keys that clients show.", no_args_is_help=True)


class _Role(StrEnum):
    user = "user"
    admin = "admin"
    expert = "expert"


def _path() -> Path:
    from contracts.settings import Settings  # noqa: PLC0415
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    settings = Settings.load()
    return settings.api_keys_file or settings.data_dir / "api_keys.json"


@app.command()
def add(
    name: Annotated[str, typer.Option(help="Whose key it is, for people who read the list.")] = "",
    tenant: Annotated[str, typer.Option(help="Tenant that everything done with the key belongs to.")] = "default",
    role: Annotated[
        _Role, typer.Option(help="admin: organization memories and documents; expert: answers questions.")
    ] = _Role.user,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Believe the client when it says who its user is (Open WebUI).")
    ] = False,
) -> None:
    """Make a key and print it; it cannot be read again."""
    from hayrecall.server.api_keys import add_key  # noqa: PLC0415

    typer.echo(add_key(_path(), tenant=tenant, role=role.value, trusted=trusted, name=name))


@app.command(name="list")
def list_() -> None:
    """List the keys without their secrets."""
    from hayrecall.server.api_keys import read_keys  # noqa: PLC0415

    for key in read_keys(_path()):
        trusted = " trusted" if key.trusted else ""
        revoked = f" revoked {key.revoked_at}" if key.revoked_at else ""
        typer.echo(f"{key.id}  {key.role:<6} {key.tenant}  {key.created_at}  {key.name}{trusted}{revoked}")


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(help="As `hayrecall keys list` shows it.")]) -> None:
    """Make a key useless at once, also for a running server."""
    from hayrecall.server.api_keys import revoke_key  # noqa: PLC0415

    if not revoke_key(_path(), key_id):
        typer.echo(f"There is no key {key_id}; `hayrecall keys list` shows them.", err=True)
        raise typer.Exit(2)
