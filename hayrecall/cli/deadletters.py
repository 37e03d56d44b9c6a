"""`hayrecall deadletters list | show | replay | discard`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hayrecall.local.deadletters import DeadLetterDesk

app = typer.Typer(help="Look after turns that the writer gave up.", no_args_is_help=True)

_Tenant = Annotated[str, typer.Option(help="Tenant that they belong to.")]
_Everywhere = Annotated[
    bool, typer.Option("--all-tenants", help="Of every tenant, also such whose tenant cannot be told.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Ids = Annotated[list[int] | None, typer.Argument(metavar="ID…", help="As `list` shows them.")]
_All = Annotated[bool, typer.Option("--all", help="All of them.")]


@app.command(name="list")
def list_(tenant: _Tenant = "default", everywhere: _Everywhere = False, as_json: _Json = False) -> None:
    """List them, the oldest first, without what was said."""
    raise SystemExit(_desk(None if everywhere else tenant).overview(as_json=as_json))


@app.command()
def show(
    letter_id: Annotated[int, typer.Argument(metavar="ID", help="As `list` shows it.")],
    tenant: _Tenant = "default",
    everywhere: _Everywhere = False,
    text: Annotated[bool, typer.Option("--text", help="Also show what the person said.")] = False,
    as_json: _Json = False,
) -> None:
    """Show one of them: why it was given up, when, and after how many attempts."""
    raise SystemExit(_desk(None if everywhere else tenant).show(letter_id, text=text, as_json=as_json))


@app.command()
def replay(
    letter_ids: _Ids = None, tenant: _Tenant = "default", everywhere: _Everywhere = False, every: _All = False
) -> None:
    """Queue them again, once the cause is gone; what was stored after all is not stored twice."""
    raise SystemExit(_desk(None if everywhere else tenant).replay(_chosen(letter_ids, every=every)))


@app.command()
def discard(
    letter_ids: _Ids = None, tenant: _Tenant = "default", everywhere: _Everywhere = False, every: _All = False
) -> None:
    """Drop them for good."""
    raise SystemExit(_desk(None if everywhere else tenant).discard(_chosen(letter_ids, every=every)))


def _chosen(letter_ids: list[int] | None, *, every: bool) -> list[int]:
    if bool(letter_ids) == every:
        msg = "name ids, or --all"
        raise typer.BadParameter(msg)
    return letter_ids or []


def _desk(tenant: str | None) -> "DeadLetterDesk":
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    from contracts.settings import Settings  # noqa: PLC0415
    from hayrecall.local.deadletters import DeadLetterDesk  # noqa: PLC0415

    return DeadLetterDesk(Settings.load(), tenant=tenant)
