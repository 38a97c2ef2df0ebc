"""Waiting for a condition of shared state: no change is missed, and who stops waiting is forgotten."""

from __future__ import annotations

import asyncio

from voice_omni.pipeline.signal import Signal


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_condition_that_holds_is_not_waited_for() -> None:
    waiting = Signal().wait_until(lambda: True)
    try:
        waiting.send(None)
    except StopIteration:
        return
    raise AssertionError("it suspended")


async def test_it_waits_until_the_condition_holds() -> None:
    signal, values = Signal(), [0]
    waiter = asyncio.create_task(signal.wait_until(lambda: values[0] == 2))
    for expected in (False, False, True):
        await turns()
        assert waiter.done() == expected
        values[0] += 1
        signal.notify()
        await turns()
    await waiter


async def test_everyone_who_waits_looks_again() -> None:
    signal, values = Signal(), [0]
    waiters = [
        asyncio.create_task(signal.wait_until(lambda wanted=wanted: values[0] >= wanted)) for wanted in (1, 1, 2)
    ]
    await turns()
    values[0] = 1
    signal.notify()
    await turns()
    assert [waiter.done() for waiter in waiters] == [True, True, False]
    values[0] = 2
    signal.notify()
    await asyncio.gather(*waiters)


async def test_they_look_in_the_order_in_which_they_came() -> None:
    signal, left, order = Signal(), [0], list[int]()

    async def take(number: int) -> None:
        await signal.wait_until(lambda: left[0] > 0)
        left[0] -= 1
        order.append(number)

    waiters = [asyncio.create_task(take(number)) for number in range(20)]
    await turns()
    left[0] = 7
    signal.notify()
    await turns()
    assert order == list(range(7))
    left[0] = 13
    signal.notify()
    await asyncio.gather(*waiters)


async def test_a_change_between_the_wake_up_and_the_look_is_not_missed() -> None:
    signal, values = Signal(), [0]
    waiter = asyncio.create_task(signal.wait_until(lambda: values[0] == 1))
    await turns()
    signal.notify()
    values[0] = 1
    signal.notify()
    await turns()
    assert waiter.done()


async def test_who_is_cancelled_is_forgotten() -> None:
    signal = Signal()
    waiter = asyncio.create_task(signal.wait_until(lambda: False))
    await turns()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert not signal._waiting
    signal.notify()
