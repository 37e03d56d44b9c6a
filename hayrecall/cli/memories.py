"""`hayrecall memories list | export | erase`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contracts.settings import Settings

app = typer.Typer(help="Show, export or erase what is remembered about a user.", no_args_is_help=True)


def _not_empty(value: str) -> str:
    if not value:
        msg = "must not be empty"
        raise typer.BadParameter(msg)
    return value


_User = Annotated[str, typer.Option("--user", help="Id of the user, as the chat client sends it.", callback=_not_empty)]
_Tenant = Annotated[str, typer.Option("--tenant", help="Tenant that the user belongs to.", callback=_not_empty)]


def _settings() -> "Settings":
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    from contracts.settings import Settings  # noqa: PLC0415

    return Settings.load()


@app.command(name="list")
def list_(
    user: _User,
    tenant: _Tenant = "default",
    superseded: Annotated[bool, typer.Option("--superseded", help="Also what no longer holds.")] = False,
) -> None:
    """Print a user's memories, newest first: date, id, text."""
    from components.memory_scope import Scope  # noqa: PLC0415
    from hayrecall.local import memories  # noqa: PLC0415

    for memory in memories.show(_settings(), Scope(tenant, user_id=user), include_superseded=superseded):
        outdated = f"  (superseded by {memory.superseded_by})" if memory.superseded_by else ""
        typer.echo(f"{memory.stated_at:%Y-%m-%d}  {memory.id}  {memory.text}{outdated}")


@app.command()
def export(
    user: _User,
    tenant: _Tenant = "default",
    to: Annotated[typer.FileTextWrite, typer.Option(help="File to write; - is stdout.", encoding="utf-8")] = "-",  # type: ignore[assignment]
) -> None:
    """Write all memories of a user as JSON, superseded ones included."""
    from components.memory_scope import Scope  # noqa: PLC0415
    from hayrecall.local import memories  # noqa: PLC0415

    memories.export(_settings(), Scope(tenant, user_id=user), to)


@app.command()
def erase(
    user: _User,
    tenant: _Tenant = "default",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; scripts are not asked.")] = False,
) -> None:
    """Erase a user's memories for good, and everything of theirs that is still on its way to be stored."""
    import sys  # noqa: PLC0415

    from hayrecall.local import memories  # noqa: PLC0415

    if not yes and sys.stdin.isatty():
        typer.confirm(f"Erase everything that is remembered about {user!r}? This cannot be undone.", abort=True)
    memories.erase(_settings(), tenant, user)
    typer.echo(f"erased everything about {user!r} in tenant {tenant!r}")
