"""`hayrecall keys`."""

from typer.testing import CliRunner

from hayrecall.cli.app import app
from hayrecall.server.api_keys import ApiKeys


def test_keys_are_made_listed_without_their_secret_and_revoked(tmp_path, monkeypatch):
    monkeypatch.setenv("HAYRECALL_API_KEYS_FILE", str(tmp_path / "keys.json"))
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke

    made = run(app, ["keys", "add", "--name", "web", "--tenant", "acme", "--role", "admin", "--trusted"])
    shown = made.output.strip()
    key = ApiKeys(tmp_path / "keys.json").find(shown)
    assert key is not None
    assert (key.tenant, key.role, key.trusted) == ("acme", "admin", True)

    listed = run(app, ["keys", "list"]).output
    assert key.id in listed
    assert "trusted" in listed
    assert shown.split("-", 2)[2] not in listed

    assert run(app, ["keys", "revoke", key.id]).exit_code == 0
    assert ApiKeys(tmp_path / "keys.json").find(shown) is None
    assert "revoked" in run(app, ["keys", "list"]).output
    assert run(app, ["keys", "revoke", "nobody"]).exit_code == 2
    assert run(app, ["keys", "add", "--role", "king"]).exit_code == 2
