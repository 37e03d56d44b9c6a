"""The data folder: worked in by one process, found by the commands beside it."""

import json
import stat
from pathlib import Path

import pytest

from hayrecall.local.data_folder import DataFolder, RunningInstance
from hayrecall.local.failures import FolderInUseError, LocalError


def test_a_running_instance_is_found_with_its_addresses_and_gone_after_it(tmp_path):
    folder, other = DataFolder(tmp_path), DataFolder(tmp_path)
    instance = RunningInstance(7, "http://127.0.0.1:1416", {"HAYRECALL_NATS_URL": "nats://secret@127.0.0.1:4222"})
    with folder.locked():
        assert other.running() is None
        folder.announce(instance)
        assert other.running() == instance
        assert stat.S_IMODE(folder.run_file.stat().st_mode) == 0o600
    assert other.running() is None
    assert not folder.run_file.exists()


def test_nobody_else_on_the_machine_can_look_into_it(tmp_path):
    with DataFolder(tmp_path / "data").locked():
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_what_a_killed_instance_left_is_not_taken_for_a_running_one(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"pid": 7, "url": "http://127.0.0.1:1", "environment": {}}))
    (tmp_path / "lock").write_text("7\n")
    folder = DataFolder(tmp_path)
    assert folder.running() is None
    with folder.locked():
        assert not folder.run_file.exists()


def test_who_comes_second_is_told_who_is_there_and_where_it_answers(tmp_path):
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.announce(RunningInstance(7, "http://127.0.0.1:1416", {}))
        with (
            pytest.raises(
                FolderInUseError, match=r"in use by process \d+ \(Hayrecall answers at http://127.0.0.1:1416\)"
            ),
            DataFolder(tmp_path).locked(),
        ):
            pass
        assert DataFolder(tmp_path).running() is not None


def test_a_disk_that_is_full_is_a_sentence_and_the_folder_is_given_free(tmp_path):
    folder = DataFolder(tmp_path)
    with (
        pytest.raises(LocalError, match="No space left on device"),
        folder.locked(),
    ):
        Path("/dev/full").write_text("x")
    assert not folder.lock.is_held()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(LocalError, match=r"the data folder .*/file/data cannot be used"),
        DataFolder(tmp_path / "file" / "data").locked(),
    ):
        pass
