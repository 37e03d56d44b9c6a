"""Who may read which document: tags on each passage, and the filter that goes into every vector query."""

from collections.abc import Sequence
from typing import Any

from contracts.queue import token

TENANT_FIELD = "meta.tenant_id"
ACCESS_FIELD = "meta.access"

_EVERYONE = "everyone"


def tenant_tag(tenant_id: str) -> str:
    """Give the value of `tenant_id` in a passage: a token, never the id itself."""
    return token(tenant_id)


def access_tags(groups: Sequence[str]) -> list[str]:
    """
    Give the tags of a document.

    A group's tag is made of a hash of its name: no name, however crafted, equals the tag of another one, or that of the
    documents that everyone in the tenant may read.

    :param groups: Groups that may read it; none for everyone in the tenant.
    :returns: Tags, sorted.
    """
    return sorted({f"group-{token(group)}" for group in groups}) or [_EVERYONE]


def in_tenant(tenant_id: str) -> dict[str, Any]:
    """Give the filter for all passages of a tenant, in Haystack's form."""
    return {"field": TENANT_FIELD, "operator": "==", "value": tenant_tag(tenant_id)}


def readable_by(tenant_id: str, groups: Sequence[str]) -> dict[str, Any]:
    """
    Give the filter for what a person may read, in Haystack's form.

    :param tenant_id: The tenant that the request belongs to.
    :param groups: Groups of the person.
    :returns: Passages of the tenant that everyone may read, or one of the groups.
    """
    tags = [_EVERYONE, *access_tags(groups)] if groups else [_EVERYONE]
    return all_of(in_tenant(tenant_id), {"field": ACCESS_FIELD, "operator": "in", "value": tags})


def all_of(*filters: dict[str, Any]) -> dict[str, Any]:
    """Join filters, in Haystack's form: all must hold."""
    return {"operator": "AND", "conditions": list(filters)}
