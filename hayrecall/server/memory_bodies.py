"""What the memory API takes in a body; read by hand, so that who may not see a memory learns nothing before."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from hayrecall.server.errors import ApiError
from hayrecall.server.text import cleaned

_MOST_FOUND = 100  # memories


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class MemoryText(_Body):
    """The new text of a memory."""

    text: str = Field(min_length=1)


class SearchQuery(_Body):
    """What to look for, and how many memories to give at most."""

    query: str = Field(min_length=1)
    limit: int = Field(10, ge=1, le=_MOST_FOUND)


class MemorySettings(_Body):
    """Whether new things are remembered, and what is remembered is used."""

    learning: bool


Body = TypeVar("Body", bound=_Body)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """
    Read a JSON body.

    :raises ApiError: 400, if it is not what is asked for, or its text is blank.
    """
    try:
        body = await request.json()
        if isinstance(body, dict):
            body = {name: cleaned(value).strip() if isinstance(value, str) else value for name, value in body.items()}
        return kind.model_validate(body, strict=True)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the body"
        raise ApiError(400, "invalid_request", f"`{place}`: {fault['msg']}.") from None
    except (ValueError, RecursionError):
        raise ApiError(400, "invalid_request", "The body is no JSON.") from None


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """Describe a body for the OpenAPI document."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": kind.model_json_schema()}}}}
