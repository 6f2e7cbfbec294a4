# Before
workers = [Worker(f'task{i}') for i in range(100)]  # 6 GB!

# After
workers = [Worker(f'task{i}') for i in range(20)]  # 1.2 GB
