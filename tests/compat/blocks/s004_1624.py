# 1. Adjust worker count
import os
worker_count = os.cpu_count() * 2

# 2. Tune polling interval (higher = less CPU, higher latency)
os.environ['CONDUCTOR_WORKER_POLLING_INTERVAL'] = '500'  # 500ms

# 3. Monitor memory
import psutil
process = psutil.Process()
print(f"RSS: {process.memory_info().rss / 1024 / 1024:.0f} MB")
