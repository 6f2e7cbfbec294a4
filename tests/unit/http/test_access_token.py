"""The access token: fetched on first use, once for all callers, renewed early, and kept after a failed renewal."""

import asyncio
import logging
import pickle
import threading
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import AuthorizationException
from conductor.client.http.models.task import Task
from conductor.testing import FakeClock
from tests.unit.http.raw_server import RESET, answer

KEYS = AuthenticationSettings("key", "secret")
TTL_S = 45 * 60


class TokenServer:
    """Gives out tokens t1, t2, … and knows which are valid. `token_script` may answer /token in another way."""

    def __init__(self) -> None:
        self.tokens = 0
        self.valid: set[str] = set()
        self.token_script: Any = None
        self.refusal = 401

    def __call__(self, seen: Any) -> Any:
        if seen.target == "/api/token":
            return self.token_script(seen) if self.token_script else self.grant()
        token = seen.headers.get("x-authorization")
        if token in self.valid:
            return answer(200, {"taskId": token})
        return answer(self.refusal, {"message": "Token cannot be null or empty"})

    def grant(self) -> bytes:
        self.tokens += 1
        self.valid = {f"t{self.tokens}"}
        return answer(200, {"token": f"t{self.tokens}"})


@pytest.fixture
async def world(serve: Any) -> Any:
    """A server with tokens, a Configuration for it, and clients on a fake clock."""

    class World:
        clock = FakeClock()
        script = TokenServer()

        async def open(self) -> "World":
            self.server = await serve(self.script)
            self.configuration = Configuration(self.server.url, authentication_settings=KEYS)
            self.clients: list[AsyncApiClient] = []
            self.client = self.another()
            return self

        def another(self, configuration: Configuration | None = None) -> AsyncApiClient:
            self.clients.append(AsyncApiClient(configuration or self.configuration, clock=self.clock))
            return self.clients[-1]

        async def used(self) -> str:
            """Make a call; which token did it carry?"""
            return (await self.client.call_for(Task, "GET", "/tasks/x")).task_id

        @property
        def fetches(self) -> int:
            return sum(seen.target == "/api/token" for seen in self.server.requests)

    opened = await World().open()
    yield opened
    for client in opened.clients:
        await client.close()


async def test_a_token_is_fetched_at_the_first_call(world: Any) -> None:
    assert world.fetches == 0
    assert world.configuration.AUTH_TOKEN is None
    assert await world.used() == "t1"
    assert await world.used() == "t1"
    assert world.fetches == 1
    assert world.server.requests[0].json == {"keyId": "key", "keySecret": "secret"}
    assert "x-authorization" not in world.server.requests[0].headers
    assert vars(world.configuration)["AUTH_TOKEN"] == "t1"
    assert world.configuration.token_update_time > 0


async def test_without_keys_there_is_no_token(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {"taskId": "x"}))
    client = AsyncApiClient(Configuration(server.url))
    await client.call("GET", "/tasks/x")
    assert [seen.target for seen in server.requests] == ["/api/tasks/x"]
    assert "x-authorization" not in server.requests[0].headers
    await client.close()


async def test_a_server_that_wants_keys_is_named_once_with_the_variables_to_set(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(lambda seen: answer(401, {"message": "no token"}))
    client = AsyncApiClient(Configuration(server.url))
    for _ in range(3):
        await client.call("GET", "/tasks/x")
    await client.close()
    (line,) = caplog.messages
    assert line.startswith(f"Server {server.url}/api rejects calls without an access key: set CONDUCTOR_AUTH_KEY and")


async def test_a_token_of_the_user_is_sent_without_keys(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {"taskId": "x"}))
    configuration = Configuration(server.url)
    configuration.update_token("mine")
    client = AsyncApiClient(configuration)
    await client.call("GET", "/tasks/x")
    assert server.requests[0].headers["x-authorization"] == "mine"
    await client.close()


async def test_p17_concurrent_calls_of_all_clients_share_one_fetch(world: Any) -> None:
    clients = [world.client, world.another(), world.another()]
    calls = [client.call_for(Task, "GET", "/tasks/x") for client in clients for _ in range(5)]
    assert {task.task_id for task in await asyncio.gather(*calls)} == {"t1"}
    assert world.fetches == 1


async def test_p17_threads_with_loops_of_their_own_share_it_too(world: Any) -> None:
    start = threading.Barrier(4)
    used = []

    def thread() -> None:
        async def run() -> None:
            client = AsyncApiClient(world.configuration, clock=world.clock)
            await asyncio.to_thread(start.wait)
            used.append((await client.call_for(Task, "GET", "/tasks/x")).task_id)
            await client.close()

        asyncio.run(run())

    threads = [threading.Thread(target=thread) for _ in range(4)]
    for each in threads:
        each.start()
    await asyncio.gather(*(asyncio.to_thread(each.join) for each in threads))
    assert used == ["t1"] * 4
    assert world.fetches == 1


async def test_a_cancelled_fetch_is_taken_over_by_who_waits(world: Any) -> None:
    first_asked, release = asyncio.Event(), asyncio.Event()

    async def slow_once(seen: Any) -> Any:
        if not first_asked.is_set():
            first_asked.set()
            await release.wait()
        return world.script.grant()

    world.script.token_script = slow_once
    fetching = asyncio.create_task(world.used())
    await first_asked.wait()
    waiting = [asyncio.create_task(world.used()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # cancelling one waiter does not cancel the others
    fetching.cancel()
    assert set(await asyncio.gather(*waiting)) == {"t1"}
    release.set()


async def test_a_token_is_renewed_before_its_end(world: Any) -> None:
    assert await world.used() == "t1"
    world.clock.advance(TTL_S * 0.85)
    assert await world.used() == "t1"
    world.clock.advance(TTL_S * 0.06)
    assert await world.used() == "t2"
    assert world.fetches == 2


async def test_while_one_renews_the_others_go_on_with_the_old_token(world: Any) -> None:
    assert await world.used() == "t1"
    world.clock.advance(TTL_S * 0.95)
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(seen: Any) -> Any:
        asked.set()
        await release.wait()
        return world.script.grant()

    world.script.token_script = slow
    renewing = asyncio.create_task(world.used())
    await asked.wait()
    assert await world.used() == "t1"
    release.set()
    assert await renewing == "t2"


@pytest.mark.parametrize(
    "failure",
    [lambda seen: answer(500), lambda seen: RESET, lambda seen: answer(200, "no json"), lambda seen: answer(401)],
    ids=["500", "reset", "malformed", "refused"],
)
async def test_p17_a_failed_renewal_keeps_the_old_token_and_backs_off(
    world: Any, failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert await world.used() == "t1"
    world.clock.advance(TTL_S * 0.95)
    world.script.token_script = failure
    with caplog.at_level(logging.WARNING):
        assert [await world.used() for _ in range(10)] == ["t1"] * 10
    tried = world.fetches
    assert tried <= 3  # one, or one and its resend; not one a call
    (line,) = caplog.messages
    assert "the old token stays in use" in line
    world.script.token_script = None
    assert await world.used() == "t1"
    world.clock.advance(2.0)
    assert await world.used() == "t2"


async def test_failed_fetches_wait_longer_each_time_up_to_a_minute(world: Any) -> None:
    world.script.token_script = lambda seen: answer(503)
    fetches = []
    for _ in range(600):  # ten minutes, a call a second
        await world.client.call("GET", "/tasks/x")
        fetches.append(world.fetches)
        world.clock.advance(1.0)
    assert 12 <= fetches[-1] <= 20
    assert fetches[-1] - fetches[-121] in (2, 3)


async def test_a_server_without_tokens_is_remembered(world: Any) -> None:
    world.script.token_script = lambda seen: answer(404, {"status": 404, "message": "No static resource api/token."})
    world.script.valid = {None}
    for _ in range(5):
        assert (await world.client.call("GET", "/tasks/x")).status == 200
    assert world.fetches == 1
    world.clock.advance(TTL_S * 2)
    await world.client.call("GET", "/tasks/x")
    assert world.fetches == 1


async def test_a_server_that_got_authentication_meanwhile_is_noticed(world: Any) -> None:
    world.script.token_script = lambda seen: answer(404)
    world.script.valid = {None}
    await world.client.call("GET", "/tasks/x")
    world.script.token_script, world.script.valid = None, set()
    assert await world.used() == "t1"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_call_is_repeated_once_with_a_new_token(world: Any, status: Any) -> None:
    world.script.refusal = status
    assert await world.used() == "t1"
    world.script.valid = set()  # as after a restart of the server with other secrets
    assert await world.used() == "t2"
    assert [seen.target for seen in world.server.requests[2:]] == ["/api/tasks/x", "/api/token", "/api/tasks/x"]


async def test_concurrent_refused_calls_share_one_renewal(world: Any) -> None:
    assert await world.used() == "t1"
    world.script.valid = set()
    assert set(await asyncio.gather(*(world.used() for _ in range(10)))) == {"t2"}
    assert world.fetches == 2


async def test_a_call_that_stays_refused_is_handed_up_and_does_not_fetch_a_token_each_time(world: Any) -> None:
    def forbid(seen: Any) -> Any:
        return world.script.grant() if seen.target == "/api/token" else answer(403, {"message": "not yours"})

    world.server.script = forbid
    for _ in range(20):
        response = await world.client.call("POST", "/tasks", body=b"{}")
        assert response.status == 403
    assert world.fetches == 2
    world.clock.advance(61)
    await world.client.call("POST", "/tasks", body=b"{}")
    assert world.fetches == 3


async def test_wrong_keys_say_so(world: Any) -> None:
    world.script.token_script = lambda seen: answer(401, {"message": "Invalid key"})
    with pytest.raises(AuthorizationException) as raised:
        await world.used()
    assert raised.value.status == 401
    assert raised.value.__notes__ == ["There is no valid access token: POST /token answered 401: Invalid key"]


async def test_a_child_process_begins_with_its_parents_token_and_its_age(world: Any) -> None:
    assert await world.used() == "t1"
    child = pickle.loads(pickle.dumps(world.configuration))
    world.client = world.another(child)
    assert await world.used() == "t1"
    assert world.fetches == 1
    child.token_update_time = world.clock.wall_ms() - int(TTL_S * 950)
    world.client = world.another(pickle.loads(pickle.dumps(child)))
    assert await world.used() == "t2"
