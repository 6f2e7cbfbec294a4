async def main():
    config = Configuration("http://localhost:8080/api")

    async with TaskHandlerAsyncIO(configuration=config) as handler:
        try:
            await handler.wait()
        except KeyboardInterrupt:
            print("Shutting down...")

if __name__ == '__main__':
    import asyncio
    asyncio.run(main())
