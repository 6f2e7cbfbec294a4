# 1. Initialization
handler = TaskHandlerAsyncIO(workers=[worker1, worker2])

# 2. Start (creates coroutines)
await handler.start()
# Creates:
#   - Task 1 (worker1) → TaskRunnerAsyncIO.run()
#   - Task 2 (worker2) → TaskRunnerAsyncIO.run()

# 3. Run (coroutines cooperate in event loop)
await handler.wait()
# All workers share same event loop
# Yield control during I/O operations

# 4. Stop (cancel tasks)
await handler.stop()
# Cancels all asyncio.Task instances
# Waits up to 30 seconds for completion
# Closes shared HTTP client
