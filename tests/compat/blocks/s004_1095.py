# ✅ Recommended: Automatic cleanup
async def main():
    async with TaskHandlerAsyncIO(workers=workers) as handler:
        await handler.wait()
    # Handler automatically stopped and cleaned up

# ⚠️ Manual: Must remember to cleanup
async def main():
    handler = TaskHandlerAsyncIO(workers=workers)
    try:
        await handler.start()
        await handler.wait()
    finally:
        await handler.stop()  # Easy to forget!
