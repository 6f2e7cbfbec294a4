def main():
    config = Configuration("http://localhost:8080/api")

    handler = TaskHandler(configuration=config)
    handler.start_processes()

    # Wait forever
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        handler.stop_processes()

if __name__ == '__main__':
    main()
