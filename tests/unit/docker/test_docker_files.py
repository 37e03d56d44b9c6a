"""What can be told about the container files without a container engine."""

import re
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml

from contracts.settings import Settings
from hayrecall.cli.app import app
from hayrecall.local.nats_server import find_binary

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()

SETTINGS = {f"HAYRECALL_{name.upper()}" for name in Settings.model_fields}
SHOWN_FILLED_IN = {f"HAYRECALL_{name}_URL" for name in ("LLM_BASE", "EMBEDDING_BASE", "QDRANT", "NATS")}
SHOWN_FILLED_IN |= {f"HAYRECALL_{name}" for name in ("ANSWER_MODEL", "TASK_MODEL", "MEMORY_MODEL")}
SHOWN_FILLED_IN |= {"HAYRECALL_MODEL_WINDOW_TOKENS"}
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "hayrecall"}


def names_in(text):
    return set(re.findall(r"HAYRECALL_[A-Z_]+", text))


def test_every_setting_stands_in_the_example_with_nothing_that_is_none():
    assert names_in(EXAMPLE) == SETTINGS


def test_the_example_shows_the_defaults(monkeypatch):
    default = Settings(_env_file=None)
    lines = dict(re.findall(r"^#(HAYRECALL_\w+)=([^\s#]+)", EXAMPLE, re.MULTILINE))
    for name in lines.keys() - SHOWN_FILLED_IN:
        monkeypatch.setenv(name, lines[name])
    assert Settings(_env_file=None) == default


@pytest.mark.parametrize("name", OURS)
def test_compose_sets_only_what_is_a_setting_and_runs_a_command_that_exists(name):
    assert set(OURS[name]["environment"]) <= SETTINGS
    assert set(OURS[name]["command"]) <= set(typer.main.get_command(app).commands)


def test_what_compose_asks_of_the_operator_stands_in_the_example():
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "docker/compose.yaml").read_text()))
    assert asked <= set(re.findall(r"^#(\w+)=", EXAMPLE, re.MULTILINE))


def test_server_and_writer_wait_for_healthy_parts_and_every_service_restarts():
    for service in OURS.values():
        assert {part: wait["condition"] for part, wait in service["depends_on"].items()} == {
            "nats": "service_healthy",
            "qdrant": "service_healthy",
        }
    for name, service in COMPOSE["services"].items():
        assert service["restart"] == "unless-stopped"
        assert "healthcheck" in service or name == "server"  # the server's stands in the Dockerfile
        kept = [volume.split(":")[0] for volume in service["volumes"]]
        assert any(volume in COMPOSE["volumes"] for volume in kept)


def test_nothing_but_the_server_is_reachable_from_outside():
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == ["server"]
    assert COMPOSE["networks"]["parts"] == {"internal": True}


def test_the_image_runs_as_nobody_special_and_holds_no_secret():
    last_stage = DOCKERFILE.rsplit("FROM ", 1)[1]
    assert re.search(r"^USER hayrecall$", last_stage, re.MULTILINE)
    assert re.search(r'^CMD \["serve"\]$', last_stage, re.MULTILINE)
    assert names_in(DOCKERFILE) <= SETTINGS - {"HAYRECALL_LLM_API_KEY", "HAYRECALL_OPENWEBUI_JWT_SECRET"}
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source}\n" in (ROOT / "docker/Dockerfile.dockerignore").read_text()


@pytest.mark.parametrize("file", ["nats.conf", "nats-cluster.conf"])
@pytest.mark.parametrize("token", ["3f9a", "123456", "9gb", "true"])
def test_nats_accepts_its_configuration_with_any_token(file, token):
    quoted = COMPOSE["x-nats"]["environment"]["NATS_TOKEN"].replace("${NATS_TOKEN:?set it in .env}", token)
    result = subprocess.run(
        [find_binary(), "-t", "--config", str(ROOT / "docker" / file)],
        env={"NATS_NAME": "nats", "NATS_TOKEN": quoted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_nats_writes_to_the_disk_before_it_confirms():
    assert re.search(r"^\s*sync_interval: always$", (ROOT / "docker/nats.conf").read_text(), re.MULTILINE)
