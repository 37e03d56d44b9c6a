"""`hayrecall calibrate`."""

from typing import Annotated

import typer


def calibrate(
    query_prefix: Annotated[str, typer.Option(help="The model's prefix for questions.")] = "query: ",
    passage_prefix: Annotated[str, typer.Option(help="The model's prefix for texts to be found.")] = "passage: ",
) -> None:
    """
    Measure the embedding model, and print the `vars` of pipelines.yaml that belong to it.

    They tell the memory search which cosines mean nothing with this model.
    """
    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    from contracts.settings import Settings  # noqa: PLC0415
    from hayrecall.local.calibrate import run  # noqa: PLC0415

    raise SystemExit(run(Settings.load(), query_prefix=query_prefix, passage_prefix=passage_prefix))
