"""Slots are granted in rotation, and a cancelled request does not keep one."""

import asyncio

from windlass.controller.engine.fair_slots import FairSlots


async def granted_order(batches: str, count: int) -> str:
    """Return the order in which the requests of the batches get a slot."""
    slots, order = FairSlots(count), ""

    async def request(batch: str) -> None:
        nonlocal order
        async with slots.slot(batch):
            order += batch
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for batch in batches:
            group.create_task(request(batch))
    return order


def test_batches_take_turns() -> None:
    assert asyncio.run(granted_order("aaaaaabbc", 2)) == "aaabcabaa"


def test_slots_of_cancelled_requests_are_granted_to_others() -> None:
    async def cancelled() -> int:
        slots = FairSlots(1)
        held = asyncio.Event()

        async def request() -> None:
            async with slots.slot("a"):
                await held.wait()

        holder, waiting, granted, last = (asyncio.create_task(request()) for _ in range(4))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        held.set()
        holder.cancel()
        await asyncio.sleep(0)
        # This one has the slot by now, but does not run yet.
        granted.cancel()
        await asyncio.gather(holder, waiting, granted, return_exceptions=True)
        await last
        async with slots.slot("b"):
            return len(asyncio.all_tasks())

    assert asyncio.run(cancelled()) == 1
