"""The command line."""

import os
import subprocess
import sys

import pytest


def hayrecall(*arguments, folder, **variables):
    return subprocess.run(
        [sys.executable, "-m", "hayrecall", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "", **variables},
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; import hayrecall.cli.app\n"
        "print([name for name in ('haystack', 'pydantic', 'hayhooks', 'nats', 'httpx') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_libraries_are_told_to_report_to_nobody():
    code = (
        "import os, sys; from hayrecall.cli.app import main; sys.argv = ['hayrecall', 'check', '--help']\n"
        "try: main()\n"
        "except SystemExit: from haystack import telemetry; from mem0.memory import telemetry as mem0\n"
        "print(telemetry._telemetry.telemetry, mem0.MEM0_TELEMETRY)"
    )
    clean = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=clean)
    assert result.stdout.endswith("None False\n")


@pytest.mark.parametrize("command", ["serve", "writer", "ingest-worker"])
def test_without_addresses_servers_and_workers_say_which_are_missing(command, tmp_path):
    result = hayrecall(command, folder=tmp_path, HAYRECALL_NATS_URL="nats://127.0.0.1:1")
    assert result.returncode == 2
    sentence = f"`hayrecall {command}` needs HAYRECALL_QDRANT_URL; `hayrecall up` starts everything on this machine"
    assert result.stderr == f"hayrecall: {sentence}\n"


def test_a_wrong_setting_in_dotenv_is_named_and_ends_with_2(tmp_path):
    (tmp_path / ".env").write_text("HAYRECALL_PORT=many\n")
    result = hayrecall("check", folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("hayrecall: HAYRECALL_PORT: ")
    assert "Traceback" not in result.stderr


def test_a_manifest_that_is_not_there_is_named_and_ends_with_2(tmp_path):
    result = hayrecall("check", folder=tmp_path)
    assert result.returncode == 2
    assert "pipelines.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_manifest_without_a_writer_is_refused(tmp_path):
    (tmp_path / "chat.yml").write_text("components: {}\nconnections: []\n")
    (tmp_path / "pipelines.yaml").write_text("pipelines:\n  chat:\n    description: Talks.\n    file: chat.yml\n")
    result = hayrecall("check", folder=tmp_path)
    assert result.returncode == 2
    assert "the manifest needs exactly one pipeline with `run_by: writer`, and has 0" in result.stderr


def test_an_unknown_command_ends_with_2(tmp_path):
    assert hayrecall("down", folder=tmp_path).returncode == 2
