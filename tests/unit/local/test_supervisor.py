"""Parts as children: started side by side, revived, stopped in reverse order."""

import os
import signal
import subprocess
import sys

import pytest

from hayrecall.local.failures import PartFailedError
from hayrecall.local.file_lock import FileLock
from hayrecall.local.python_part import PythonPart
from hayrecall.local.supervisor import Supervisor
from tests.conftest import wait_until


def part(folder, *arguments, name="part", descriptors=()):
    return PythonPart(
        name,
        "tests.unit.local.small_part",
        arguments,
        ports_file=folder / f"{name}.json",
        log_file=folder / f"{name}.log",
        inherited_descriptors=descriptors,
    )


@pytest.fixture
def lines():
    return []


@pytest.fixture
def supervisor(lines):
    supervisor = Supervisor(lines.append)
    yield supervisor
    supervisor.kill()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_part_that_crashed_comes_back_at_its_address_and_the_operator_is_told(tmp_path, supervisor, lines):
    child = part(tmp_path)
    supervisor.start([child])
    supervisor.wait_ready([child], timeout_seconds=10)
    address, first_pid = child.url, child.pid

    child.kill()
    wait_until(lambda: supervisor.revive() or child.pid not in {None, first_pid})
    child.wait_ready(10)

    assert child.url == address
    assert lines[0].startswith("part: ok, ")
    assert lines[1].startswith("part ended with exit code -9, starts again in 0.5 s")


def test_a_part_that_cannot_start_says_why_and_where_its_log_is(tmp_path, supervisor):
    child = part(tmp_path, "--fail")
    supervisor.start([child])
    with pytest.raises(PartFailedError, match=r"exit code 1: the reason why it ends \(log: .*part.log\)"):
        supervisor.wait_ready([child], timeout_seconds=10)


def test_an_address_that_a_killed_run_left_is_not_taken_for_the_new_one(tmp_path):
    (tmp_path / "part.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    with part(tmp_path) as child:
        assert child.url != "http://127.0.0.1:1"


def test_a_part_is_stopped_only_when_those_started_after_it_have_ended(tmp_path, supervisor):
    first, second, third = (part(tmp_path, name=name) for name in ("first", "second", "third"))
    supervisor.start([first])
    supervisor.start([second, third])
    supervisor.wait_ready([first, second, third], timeout_seconds=10)

    supervisor.stop(timeout_seconds=10)

    ended = {child.name: child.output().splitlines()[-1] for child in (first, second, third)}
    assert ended["first"] > max(ended["second"], ended["third"])
    assert [child.exit_code for child in (first, second, third)] == [0, 0, 0]


def test_a_part_that_does_not_end_in_time_is_killed(tmp_path):
    child = part(tmp_path, "--stubborn").start()
    assert child.stop(timeout_seconds=0.3) == -signal.SIGKILL


def test_a_lock_holds_until_the_last_child_of_a_killed_holder_has_ended(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from tests.unit.local.test_supervisor import part\n"
        "from hayrecall.local.file_lock import FileLock\n"
        "folder = Path(sys.argv[1]); lock = FileLock(folder / 'lock'); lock.acquire()\n"
        "child = part(folder, '--stubborn', descriptors=lock.descriptors).start()\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        child_pid = int(holder.stdout.readline())
        holder.kill()

    lock = FileLock(tmp_path / "lock")
    assert is_alive(child_pid)
    assert lock.is_held()
    os.kill(child_pid, signal.SIGKILL)
    lock.acquire(patience_seconds=10)
    assert lock.holder() == os.getpid()
    lock.release()
