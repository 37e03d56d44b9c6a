"""An optional stage that fails is passed over, counted, and logged without user text."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from components.fail_open import fail_open
from contracts.errors import FewShotRejectedError, ModelUnavailableError, UnreadableModelOutputError


async def _raise(error: BaseException):
    raise error


def _count(name: str, stage: str) -> float:
    return REGISTRY.get_sample_value(name, {"stage": stage}) or 0.0


async def test_work_that_succeeds_gives_its_result():
    assert await fail_open("t1", asyncio.sleep(0, "done"), "otherwise") == "done"
    assert _count("hayrecall_fail_open_total", "t1") == 0


async def test_work_that_fails_gives_the_alternative_and_is_counted(caplog):
    for error in (ModelUnavailableError("the model is down"), ValueError("secret user text")):
        assert await fail_open("t2", _raise(error), "otherwise") == "otherwise"

    assert _count("hayrecall_fail_open_total", "t2") == 2
    assert _count("hayrecall_unreadable_verdicts_total", "t2") == 0
    assert "the model is down" in caplog.text
    assert "ValueError" in caplog.text
    assert "secret user text" not in caplog.text


async def test_unreadable_output_is_counted_as_such_too():
    await fail_open("t3", _raise(UnreadableModelOutputError("not JSON")), None)

    assert _count("hayrecall_unreadable_verdicts_total", "t3") == 1


async def test_work_that_takes_too_long_is_cancelled():
    cancelled = asyncio.Event()

    async def hang():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    assert await fail_open("t4", hang(), "otherwise", timeout_seconds=0.02) == "otherwise"
    assert cancelled.is_set()


async def test_a_refusal_and_a_cancellation_pass():
    with pytest.raises(FewShotRejectedError):
        await fail_open("t5", _raise(FewShotRejectedError("no")), None)
    with pytest.raises(asyncio.CancelledError):
        await fail_open("t5", _raise(asyncio.CancelledError()), None)
    assert _count("hayrecall_fail_open_total", "t5") == 0
