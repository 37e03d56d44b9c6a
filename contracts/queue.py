"""Names on the queue, and the tokens that stand for ids in subjects, keys and records."""

import base64
import hashlib

TURNS_STREAM = "HAYRECALL_TURNS"
DEAD_STREAM = "HAYRECALL_DEAD"
PLANS_BUCKET = "hayrecall_plans"
DONE_BUCKET = "hayrecall_done"
USERS_BUCKET = "hayrecall_users"
QUESTIONS_BUCKET = "hayrecall_questions"
BODIES_BUCKET = "hayrecall_bodies"

PARTITIONS = 64
CLAIM_CHECK_BYTES = 256 * 1024

# Headers beside NATS's own Nats-Msg-Id, Nats-Expected-Stream and Nats-Rollup, and W3C `traceparent`.
VERSION_HEADER = "Hayrecall-Version"
KIND_HEADER = "Hayrecall-Kind"  # turn | erase
BODY_HEADER = "Hayrecall-Body"  # name in the object store; with size and digest below
BODY_SIZE_HEADER = "Hayrecall-Body-Size"  # bytes
BODY_DIGEST_HEADER = "Hayrecall-Body-Sha256"  # hex
REPLAY_HEADER = "Hayrecall-Replay"  # stream sequence of the dead letter that this message replays


def token(identifier: str) -> str:
    """
    Make a subject token of any string: fixed length, no personal data, nothing that NATS or Qdrant would interpret.

    :param identifier: An id as a client sent it: e-mail, blanks, wildcards, any script, lone surrogates.
    :returns: 26 characters of a-z and 2-7: base32 of the 128-bit BLAKE2b of the UTF-8 form.
    """
    digest = hashlib.blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()


def organization_token(tenant_id: str, namespace: str = "") -> str:
    """
    Make the `user_id` of organization records, which no user's token can equal.

    :param tenant_id: The tenant.
    :param namespace: Part of the organization's memory; empty for the part that every assistant reads.
    :returns: `org-` and a token.
    """
    return "org-" + token(f"{tenant_id}/{namespace}" if namespace else tenant_id)


def turn_subject(tenant_id: str, user_id: str) -> str:
    """Give the subject on which a user's turns are published; the stream puts a partition number in front."""
    return f"turns.{token(tenant_id)}.{token(user_id)}"


def partition(tenant_id: str, user_id: str) -> int:
    """
    Compute the partition as the server's `partition(64, 1, 2)` does: FNV-1a 32 of the joined tokens.

    :returns: 0 to 63.
    """
    digest = 2166136261
    for byte in (token(tenant_id) + token(user_id)).encode():
        digest = ((digest ^ byte) * 16777619) & 0xFFFFFFFF
    return digest % PARTITIONS


def stored_subject(tenant_id: str, user_id: str) -> str:
    """Give the subject under which the stream keeps a user's turns."""
    return f"turns.{partition(tenant_id, user_id)}.{token(tenant_id)}.{token(user_id)}"


def dead_subject(tenant_id: str, user_id: str) -> str:
    """Give the subject of a user's dead letters."""
    return f"dead.{token(tenant_id)}.{token(user_id)}"


def user_key(tenant_id: str, user_id: str) -> str:
    """Give the key of a user in `hayrecall_users`."""
    return f"{token(tenant_id)}.{token(user_id)}"
