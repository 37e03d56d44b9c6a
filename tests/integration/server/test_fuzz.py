"""Whatever a client sends, it is answered, and never with a fault of ours; `benchmarks.fuzz` does this for longer."""

from collections import Counter

import pytest
from schemathesis import openapi

from benchmarks.fuzz import probe_operation

pytestmark = pytest.mark.integration


def test_no_request_that_the_document_describes_or_forbids_is_answered_with_a_fault(served):
    client = served.client("ann", key=served.admin)
    statuses, failures = Counter(), []

    for operation in openapi.from_dict(client.get("/openapi.json").json()).get_all_operations():
        probe_operation(operation.ok(), client, statuses, failures, examples=4)

    assert not failures
    assert sum(statuses.values()) > 40
