# CPU-bound workers with multiprocessing
cpu_workers = [
    ImageProcessingWorker('resize_images'),
    MLInferenceWorker('run_model')
]

# I/O-bound workers with AsyncIO
io_workers = [
    APICallWorker('fetch_data'),
    DatabaseWorker('query_db'),
    EmailWorker('send_email')
]

# Run both handlers
import asyncio
import multiprocessing

def run_multiprocessing():
    handler = TaskHandler(workers=cpu_workers)
    handler.start_processes()

async def run_asyncio():
    async with TaskHandlerAsyncIO(workers=io_workers) as handler:
        await handler.wait()

# Start both
mp_process = multiprocessing.Process(target=run_multiprocessing)
mp_process.start()

asyncio.run(run_asyncio())
