"""Names on the queue, and the tokens that stand for ids in subjects, keys and records."""

import base64
import hashlib
from datetime import timedelta
from typing import Any
from uuid import UUID

TURNS_STREAM = "HAYRECALL_TURNS"
DEAD_STREAM = "HAYRECALL_DEAD"
PLANS_BUCKET = "hayrecall_plans"
DONE_BUCKET = "hayrecall_done"
USERS_BUCKET = "hayrecall_users"
QUESTIONS_BUCKET = "hayrecall_questions"
BODIES_BUCKET = "hayrecall_bodies"

PARTITIONS = 64
CLAIM_CHECK_BYTES = 256 * 1024
TURNS_MAX_BYTES = 128 * 1024 * 1024

DUPLICATE_WINDOW = timedelta(hours=1)
ACK_WAIT = timedelta(seconds=30)
PLANS_LIVE = timedelta(days=7)
DEAD_LETTERS_LIVE = timedelta(days=90)
DONE_MARKERS_LIVE = 2 * DEAD_LETTERS_LIVE  # as long as anything could deliver a run again

# Headers beside NATS's own Nats-Msg-Id, Nats-Expected-Stream and Nats-Rollup, and W3C `traceparent`.
VERSION_HEADER = "Hayrecall-Version"
KIND_HEADER = "Hayrecall-Kind"  # turn | erase
BODY_HEADER = "Hayrecall-Body"  # name in the object store; with size and digest below
BODY_SIZE_HEADER = "Hayrecall-Body-Size"  # bytes
BODY_DIGEST_HEADER = "Hayrecall-Body-Sha256"  # hex
REPLAY_HEADER = "Hayrecall-Replay"  # stream sequence of the dead letter that this message replays

# A dead letter is the message as it came (body, Hayrecall-* headers, traceparent), under `dead.<tenant>.<user>`, with:
DEAD_REASON_HEADER = "Hayrecall-Dead-Reason"  # invalid | unreadable | rejected | killed | failed
DEAD_ERROR_HEADER = "Hayrecall-Dead-Error"  # a sentence for an operator, without user text
DEAD_ATTEMPTS_HEADER = "Hayrecall-Dead-Attempts"
DEAD_AT_HEADER = "Hayrecall-Dead-At"  # RFC 3339
DEAD_RUN_HEADER = "Hayrecall-Dead-Run"  # message id it was published under: the origin run's, also after a replay
DEAD_SUBJECT_HEADER = "Hayrecall-Dead-Subject"  # where it was published, and where a replay goes


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


def plan_key(tenant_id: str, user_id: str, run_id: UUID) -> str:
    """Give the key of a run's plan in `hayrecall_plans`: below the user's, so that an erase finds it."""
    return f"{user_key(tenant_id, user_id)}.{run_id}"


def question_key(tenant_id: str, user_id: str, question_id: str) -> str:
    """
    Give the key of an expert question in `hayrecall_questions`: below the user's, so that an erase finds it.

    :param question_id: Letters, digits, `-` and `_` only.
    """
    return f"{user_key(tenant_id, user_id)}.{question_id}"


def body_name(tenant_id: str, user_id: str, run_id: UUID) -> str:
    """Give the name of a large body in `hayrecall_bodies`: it begins with the user's key, so that an erase finds it."""
    return f"{user_key(tenant_id, user_id)}.{run_id}"


def done_key(run_id: UUID) -> str:
    """Give the key of a run's done-marker in `hayrecall_done`; it outlives an erase, and holds no text."""
    return str(run_id)


# The objects below are in the JSON of NATS's own API ($JS.API.STREAM.CREATE, …), durations in nanoseconds: whoever
# starts first, server or writer, creates the same, and no client library's idea of the fields stands in between.


def stream_configs(*, replicas: int = 1, turns_max_bytes: int = TURNS_MAX_BYTES) -> list[dict[str, Any]]:
    """
    Describe every stream, bucket and object store of the queue.

    :param replicas: Copies of each; 1 or, in a cluster, 3.
    :param turns_max_bytes: Most that may wait to be written; beyond it, turns wait in the outboxes of the servers. The
        NATS server reserves as much of its disk budget.
    """
    common = {"storage": "file", "num_replicas": replicas, "allow_direct": True, "allow_rollup_hdrs": True}
    turns = {
        "name": TURNS_STREAM,
        "subjects": ["turns.*.*"],
        # The partition in front of the subject is what 64 consumers with one turn in flight each are cut by.
        "subject_transform": {
            "src": "turns.*.*",
            "dest": f"turns.{{{{partition({PARTITIONS},1,2)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}",
        },
        "retention": "workqueue",
        "discard": "new",
        "max_bytes": turns_max_bytes,
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    }
    dead = {
        "name": DEAD_STREAM,
        "subjects": ["dead.*.*"],
        "retention": "limits",
        "discard": "new",
        "max_age": nanoseconds(DEAD_LETTERS_LIVE),
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    }
    buckets = [
        _bucket(PLANS_BUCKET, PLANS_LIVE),
        _bucket(DONE_BUCKET, DONE_MARKERS_LIVE),
        _bucket(USERS_BUCKET, None),
        _bucket(QUESTIONS_BUCKET, None),
    ]
    bodies = object_store(BODIES_BUCKET, DONE_MARKERS_LIVE)
    return [config | common for config in (turns, dead, *buckets, bodies)]


def consumer_config(partition_number: int, *, ack_wait: timedelta = ACK_WAIT) -> dict[str, Any]:
    """
    Describe the durable pull consumer of one partition: one turn in flight at a time, delivered until acknowledged.

    :param partition_number: 0 to 63.
    :param ack_wait: How long a writer may be silent about a turn before another one gets it.
    """
    name = f"writer-{partition_number:02}"
    return {
        "name": name,
        "durable_name": name,
        "filter_subject": f"turns.{partition_number}.*.*",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(ack_wait),
        "max_ack_pending": 1,  # the server itself keeps the order of a user's turns, whatever the number of writers
        "max_deliver": -1,  # anything else drops a turn silently
        "max_waiting": 512,
    }


def _bucket(name: str, lives: timedelta | None) -> dict[str, Any]:
    # What clients of NATS know as a key-value bucket, but deletable: an erase leaves no earlier value behind.
    window = DUPLICATE_WINDOW if lives is None else min(DUPLICATE_WINDOW, lives)
    return {
        "name": f"KV_{name}",
        "subjects": [f"$KV.{name}.>"],
        "discard": "new",
        "max_msgs_per_subject": 1,
        "max_age": nanoseconds(lives),
        "duplicate_window": nanoseconds(window),
    }


def object_store(name: str, lives: timedelta) -> dict[str, Any]:
    """
    Describe an object store, but for what all streams have in common.

    :param name: Its name.
    :param lives: A backstop for bodies whose process died before their message was sent: nothing is delivered later.
    """
    return {
        "name": f"OBJ_{name}",
        "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
        "discard": "new",
        "max_age": nanoseconds(lives),
        "allow_rollup_hdrs": True,
    }


def nanoseconds(duration: timedelta | None) -> int:
    """Give a duration as NATS takes it; 0, without end, for None."""
    return duration // timedelta(microseconds=1) * 1000 if duration else 0
