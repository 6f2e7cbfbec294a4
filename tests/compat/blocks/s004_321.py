# Memory overhead acceptable for small scale
handler = TaskHandler(workers=workers)  # 10 × 60MB = 600MB
