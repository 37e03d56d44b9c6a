"""Whose memory is meant: one user's, or an organization's."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from contracts.queue import organization_token, token

OwnerField = Literal["user_id", "organization_id"]


@dataclass(frozen=True)
class Scope:
    """
    The owner of memories; every read and write of the store is confined to one.

    Give `user_id` for a user's memory, `organization_namespace` for the organization's ("" is the part that every
    assistant reads). Ids are arbitrary strings: the store sees tokens of them only.

    ### Usage example

    ```python
    from components.memory_scope import Scope

    mine = Scope("acme", user_id="ann.b@acme.example")
    ours = Scope("acme", organization_namespace="")
    assert mine.owner_token != Scope("acme", user_id="*").owner_token
    assert ours.mem0_user_id == "org-" + ours.owner_token
    ```
    """

    tenant_id: str
    user_id: str | None = None
    organization_namespace: str | None = None

    def __post_init__(self) -> None:
        """
        Refuse a scope without exactly one owner: a missing identity must never widen what is read.

        :raises ValueError: If both or none of the owners are given, or an id is empty.
        """
        if (self.user_id is None) == (self.organization_namespace is None) or self.user_id == "" or not self.tenant_id:
            msg = "a scope needs a tenant and either a user or an organization namespace"
            raise ValueError(msg)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Travel through a pipeline's sockets without being copied."""
        return self

    @property
    def tenant_token(self) -> str:
        """What records hold as `tenant_id`."""
        return token(self.tenant_id)

    @property
    def owner_field(self) -> OwnerField:
        """The record field that names the owner."""
        return "user_id" if self.organization_namespace is None else "organization_id"

    @property
    def owner_token(self) -> str:
        """What records hold in `owner_field`."""
        return self.mem0_user_id.removeprefix("org-")

    @property
    def mem0_user_id(self) -> str:
        """The `user_id` under which stock mem0 finds the records of this scope."""
        if self.user_id is not None:
            return token(self.user_id)
        return organization_token(self.tenant_id, self.organization_namespace or "")
