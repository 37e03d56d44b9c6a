"""The key file holds hashes only, and a running server follows its changes."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.errors import ConfigurationError
from hayrecall.server.api_keys import ApiKeys, add_key, read_keys, revoke_key


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "keys.json"


def test_a_key_opens_with_its_tenant_trust_and_role(path):
    shown = add_key(path, tenant="acme", role="expert", trusted=True, name="desk")

    key = ApiKeys(path).find(shown)

    assert key is not None
    assert (key.tenant, key.role, key.trusted, key.name) == ("acme", "expert", True, "desk")


def test_the_file_is_private_and_holds_no_key_in_clear(path):
    shown = add_key(path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert shown.split("-", 2)[2] not in path.read_text()


@pytest.mark.parametrize("change", [lambda k: k[:-1], lambda k: k + "x", lambda k: "", lambda k: k.split("-")[1]])
def test_a_wrong_key_opens_nothing(path, change):
    shown = add_key(path)

    assert ApiKeys(path).find(change(shown)) is None


def test_a_revoked_key_opens_nothing_from_the_next_request_on(path):
    shown = add_key(path)
    keys = ApiKeys(path)
    assert keys.find(shown)

    assert revoke_key(path, read_keys(path)[0].id)

    assert keys.find(shown) is None
    assert not revoke_key(path, "unknown")


def test_a_key_that_is_added_later_is_found_without_a_restart(path):
    keys = ApiKeys(path)
    assert keys.find("anything") is None

    assert keys.find(add_key(path))


def test_a_damaged_file_changes_nothing_for_a_running_server_and_is_refused_by_the_command(path):
    shown = add_key(path)
    keys = ApiKeys(path)
    assert keys.find(shown)

    path.write_text('{"keys": [')

    assert keys.find(shown)
    with pytest.raises(ConfigurationError, match="no file of API keys"):
        add_key(path)


def test_keys_that_are_added_at_the_same_time_are_all_kept(path):
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(lambda n: add_key(path, name=str(n)), range(16)))

    keys = ApiKeys(path)
    assert all(keys.find(key) for key in shown)
    assert len(json.loads(path.read_text())["keys"]) == 16
