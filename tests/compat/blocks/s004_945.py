import signal

def signal_handler(signum, frame):
    logger.info("Received shutdown signal")
    handler.stop_processes()
    sys.exit(0)

signal.signal(signal.SIGTERM, signal_handler)
signal.signal(signal.SIGINT, signal_handler)
