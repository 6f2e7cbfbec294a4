# 100 workers:
# Multiprocessing: 6 GB (100 × 60MB)
# AsyncIO:         0.5 GB (50MB + 100×5MB)
handler = TaskHandlerAsyncIO(workers=workers)  # 91% less memory
