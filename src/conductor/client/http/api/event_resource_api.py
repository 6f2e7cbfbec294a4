from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.event_handler import EventHandler


class EventResourceApi(GeneratedApi):
    """Event handlers, and queues of other systems."""

    add_event_handler = generated("POST", "/event", "body")
    delete_queue_config = generated("DELETE", "/event/queue/config/{queueType}/{queueName}", "queue_type, queue_name")
    get_event_handlers = generated("GET", "/event", returns=list[EventHandler])
    get_event_handlers_for_event = generated(
        "GET", "/event/{event}", "event, *, active_only", returns=list[EventHandler]
    )
    get_queue_config = generated(
        "GET", "/event/queue/config/{queueType}/{queueName}", "queue_type, queue_name", returns=dict[str, Any]
    )
    get_queue_names = generated("GET", "/event/queue/config", returns=dict[str, str])
    put_queue_config = generated("PUT", "/event/queue/config/{queueType}/{queueName}", "body, queue_type, queue_name")
    remove_event_handler_status = generated("DELETE", "/event/{name}", "name")
    update_event_handler = generated("PUT", "/event", "body")
