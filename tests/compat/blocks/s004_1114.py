import asyncio

def monitor_event_loop():
    """Check for slow callbacks"""
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 0.1  # Warn if callback > 100ms

    # Enable debug mode (shows slow callbacks)
    loop.set_debug(True)

asyncio.run(main(), debug=True)
