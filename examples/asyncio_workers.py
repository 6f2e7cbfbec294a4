"""Many workers in one process: coroutines on one event loop, `def` functions in threads. Stop it with Ctrl-C."""

import asyncio
import hashlib
import logging

from conductor import Configuration, NonRetryableException, TaskHandlerAsyncIO, worker_task


@worker_task(task_definition_name="fetch_price", thread_count=100)
async def fetch_price(symbol: str) -> dict[str, object]:
    """Wait like a call over the network: up to 100 of these coroutines wait at the same time on one thread."""
    await asyncio.sleep(0.05)
    if not symbol.isalpha():
        raise NonRetryableException(f"{symbol!r} is no symbol: trying again would not help")
    return {"symbol": symbol.upper(), "price": 42.0}


@worker_task(task_definition_name="sign_document", thread_count=2)
def sign_document(text: str) -> dict[str, str]:
    """Compute a digest in a thread, so that the blocking call does not delay the event loop."""
    return {"signature": hashlib.sha256(text.encode()).hexdigest()}


async def main() -> None:
    """Run both workers until Ctrl-C or SIGTERM, and finish the running tasks."""
    async with TaskHandlerAsyncIO(configuration=Configuration()) as handler:
        await handler.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
