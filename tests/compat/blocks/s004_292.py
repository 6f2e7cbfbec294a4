@worker_task(task_definition_name='image_processing')
def process_image(task):
    # Heavy CPU work: resize, filter, ML inference
    image = load_image(task.input_data['url'])
    processed = apply_filters(image)  # CPU intensive
    result = run_ml_model(processed)  # CPU intensive
    return {'result': result}
