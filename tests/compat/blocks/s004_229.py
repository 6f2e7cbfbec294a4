# 1. Initialization
handler = TaskHandler(workers=[worker1, worker2])

# 2. Start (spawns processes)
handler.start_processes()
# Creates:
#   - Process 1 (worker1) → TaskRunner.run()
#   - Process 2 (worker2) → TaskRunner.run()

# 3. Run (processes run independently)
# Each process polls/executes in infinite loop

# 4. Stop (terminate processes)
handler.stop_processes()
# Sends SIGTERM to each process
# Waits for graceful shutdown
