"""Group names, however crafted, open only the documents of that very group."""

import pytest

from components.document_access import access_tags, readable_by, tenant_tag


@pytest.mark.parametrize("crafted", ["everyone", "group-", "*", "", "a\nb", "staff ", "STAFF", "\ud800", "' OR 1=1"])
def test_no_crafted_name_equals_another_groups_tag_or_everyones(crafted):
    assert not set(access_tags([crafted])) & {*access_tags(["staff"]), *access_tags([])}


def test_the_order_of_groups_changes_nothing():
    assert access_tags(["b", "a", "b"]) == access_tags(["a", "b"])


def test_a_person_without_groups_reads_what_everyone_may():
    (_, access) = readable_by("acme", ())["conditions"]

    assert access["value"] == access_tags([])


def test_tenants_are_told_apart_by_tokens():
    assert tenant_tag("acme") != tenant_tag("acme ") != tenant_tag("*")
    assert "acme" not in tenant_tag("acme")
