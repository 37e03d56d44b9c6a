"""Settings that depend on each other."""

import pytest

from contracts.settings import Settings


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_links_lead_to_the_port_that_a_server_really_has(host, address):
    settings = Settings(host=host, port=0, _env_file=None).listening_on(4711)

    assert (settings.port, settings.public_url) == (4711, f"http://{address}:4711")
    assert "public_url" not in settings.model_fields_set  # the memory page's links follow the request then


def test_a_public_address_that_is_set_stays():
    settings = Settings(port=0, public_url="https://chat.example.com", _env_file=None).listening_on(4711)

    assert settings.public_url == "https://chat.example.com"
