"""What waits for subscribers is bounded, also for one client that has many of them."""

import asyncio

from place.server.access import Who
from place.server.encode import Message
from place.server.subscriber import Subscriber, relieve


def test_one_client_cannot_have_memory_filled_by_many_subscriptions() -> None:
    def waiting(name: str, size: int) -> Subscriber:
        subscriber = Subscriber(Who(name, "client"), "q", 4 << 20)
        subscriber.offer([Message("x" * size, "1-0", "1-0")])
        return subscriber

    async def check() -> None:
        mine = [waiting("ada", size) for size in (300, 500, 100, 0)]
        others = [waiting("grace", 700), waiting("linus", 1)]
        relieve([*mine, *others], 700)
        assert [each.ending is not None for each in mine] == [False, True, False, False]
        assert not any(each.ending for each in others)
        ending = mine[1].ending
        assert ending is not None
        assert (ending.code, ending.close) == ("slow_consumer", 4408)

    asyncio.run(check())
