import os

# Rule of thumb: 1-2 workers per CPU core for CPU-bound
cpu_count = os.cpu_count()
worker_count = cpu_count * 2

# For I/O-bound: can be higher
worker_count = 20  # Depends on memory available
