"""Many workers in one process: coroutines on one event loop, `def` functions in threads. Stop it with Ctrl-C."""

import asyncio
import hashlib
import logging

from conductor import Configuration, NonRetryableException, TaskHandlerAsyncIO, worker_task


@worker_task(task_definition_name="fetch_price", thread_count=100)
async def fetch_price(symbol: str) -> dict[str, object]:
    """Waits, as for a network: a hundred of these wait together and cost one thread."""
    await asyncio.sleep(0.05)
    if not symbol.isalpha():
        raise NonRetryableException(f"{symbol!r} is no symbol: trying again would not help")
    return {"symbol": symbol.upper(), "price": 42.0}


@worker_task(task_definition_name="sign_document", thread_count=2)
def sign_document(text: str) -> dict[str, str]:
    """Block, as old code does: the function runs in a thread and does not block the event loop."""
    return {"signature": hashlib.sha256(text.encode()).hexdigest()}


async def main() -> None:
    """Run both until Ctrl-C or SIGTERM; what is in hand is finished first."""
    async with TaskHandlerAsyncIO(configuration=Configuration()) as handler:
        await handler.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
