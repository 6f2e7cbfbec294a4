import psutil

def monitor_memory():
    process = psutil.Process()
    children = process.children(recursive=True)

    total_memory = process.memory_info().rss
    for child in children:
        total_memory += child.memory_info().rss

    print(f"Total memory: {total_memory / 1024 / 1024:.0f} MB")
