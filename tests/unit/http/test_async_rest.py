"""Single requests over real sockets: their answers, and connections that fail."""

import asyncio
import contextlib
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import (
    ApiException,
    AsyncRESTClientObject,
    AuthorizationException,
    ConnectError,
    ConnectionLost,
    NotFoundException,
    RequestTimeout,
    Response,
    TransportError,
)
from conductor.client.http.call import Call
from tests.unit.http.raw_server import CLOSE, RESET, SILENCE, answer


@pytest.fixture
async def rest() -> Any:
    made = []

    def make(server: Any, **options: Any) -> AsyncRESTClientObject:
        made.append(AsyncRESTClientObject(Configuration(server.url, **options)))
        return made[-1]

    yield make
    for client in made:
        await client.close()


async def test_every_status_is_an_answer(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer(int(seen.target[1:]), "said", X_Thing="Value"))
    client = rest(server)
    for status in (200, 204, 301, 400, 404, 409, 500, 503):
        response = await client.send(Call("GET", f"{server.url}/{status}"))
        assert response.status == status
        assert response.headers["x-thing"] == "Value"
        assert dict(response.headers)["content-type"] == "text/plain"
    assert isinstance(response.body, bytes)
    assert response.body == b"said"


async def test_the_server_sees_method_path_headers_and_body(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer())
    await rest(server).send(Call("POST", server.url + "/x?a=1", headers={"X-Authorization": "t"}, body=b"{}"))
    (seen,) = server.requests
    assert (seen.method, seen.target, seen.body) == ("POST", "/x?a=1", b"{}")
    assert seen.headers["x-authorization"] == "t"
    assert seen.headers["user-agent"].startswith("conductor-worker/")


async def test_a_redirect_is_not_followed(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer(302, Location="/elsewhere"))
    response = await rest(server).send(Call("POST", server.url + "/tasks", body=b"{}"))
    assert (response.status, len(server.requests)) == (302, 1)


async def test_refused_and_unknown_hosts_are_connect_errors() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        client = AsyncRESTClientObject(Configuration(url))
        with pytest.raises(ConnectError, match=r"GET http://127.0.0.1:\d+/timeout: no connection: .*refused"):
            await client.send(Call("GET", url + "/timeout"))
    with pytest.raises(ConnectError, match="no-such-host.invalid"):
        await client.send(Call("GET", "http://no-such-host.invalid/"))
    await client.close()


async def test_p33_silence_is_a_timeout_and_the_next_request_has_a_new_connection(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: SILENCE if seen.connection == 1 else answer(body="ok"))
    client = rest(server)
    with pytest.raises(RequestTimeout, match=r"no answer within 1 s"):
        await client.send(Call("GET", server.url + "/poll", timeout_s=1))
    assert (await client.send(Call("GET", server.url + "/poll"))).body == b"ok"
    assert server.connections == 2


async def test_p33_a_body_that_stops_halfway_is_a_timeout(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    with pytest.raises(RequestTimeout):
        await rest(server).send(Call("GET", server.url + "/poll", timeout_s=1))


@pytest.mark.parametrize("ending", [CLOSE, RESET])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_p35_a_kept_alive_connection_lost_on_reuse_is_not_a_failure(
    serve: Any, rest: Any, ending: Any, method: Any
) -> None:
    server = await serve(lambda seen: ending if seen.nth == 2 else answer(body="ok"))
    client = rest(server)
    body = b"{}" if method == "POST" else None
    for _ in range(4):  # the words of a poll's URL must not decide what its error is
        assert (await client.send(Call(method, server.url + "/poll?timeout=100&connect=1", body=body))).body == b"ok"


async def test_p35_a_pool_full_of_dead_connections_costs_no_failure(serve: Any, rest: Any) -> None:
    together = asyncio.Barrier(5)

    async def script(seen: Any) -> Any:
        if seen.nth == 1 and seen.connection <= 5:
            await together.wait()  # five connections, all idle afterwards, all lost when used again
            return answer(body="ok")
        return RESET if seen.nth > 1 else answer(body="ok")

    server = await serve(script)
    client = rest(server)
    await asyncio.gather(*(client.send(Call("GET", server.url)) for _ in range(5)))
    assert server.connections == 5
    for _ in range(5):
        assert (await client.send(Call("GET", server.url))).body == b"ok"


@pytest.mark.parametrize("ending", [CLOSE, RESET])
async def test_a_new_connection_that_is_lost_is_a_failure_at_once(serve: Any, rest: Any, ending: Any) -> None:
    server = await serve(lambda seen: ending)
    client = rest(server)
    with pytest.raises(ConnectionLost, match="POST http"):
        await client.send(Call("POST", server.url + "/tasks?timeout=1&connect=1&decode=1", body=b"{}"))
    assert len(server.requests) == 1


async def test_a_request_is_sent_again_only_once(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer() if seen.connection == seen.nth == 1 else RESET)
    client = rest(server)
    await client.send(Call("GET", server.url))
    with pytest.raises(ConnectionLost):
        await client.send(Call("GET", server.url))
    assert len(server.requests) == 3


async def test_a_request_that_must_not_arrive_twice_is_never_sent_again(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: RESET if seen.nth == 2 else answer())
    client = rest(server)
    await client.send(Call("GET", server.url))
    with pytest.raises(ConnectionLost):
        await client.send(Call("POST", server.url + "/workflow", body=b"{}", resend=False))
    assert len(server.requests) == 2


@pytest.mark.parametrize("junk", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_an_answer_that_is_not_http_is_a_transport_error(serve: Any, rest: Any, junk: Any) -> None:
    server = await serve(lambda seen: junk)
    with pytest.raises(TransportError):
        await rest(server).send(Call("GET", server.url, timeout_s=60))


async def test_a_cut_body_is_a_lost_connection(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhalf")
    with pytest.raises(ConnectionLost):
        await rest(server).send(Call("GET", server.url))


async def test_connections_are_reused_and_bounded(serve: Any, rest: Any) -> None:
    async def script(seen: Any) -> Any:
        await asyncio.sleep(0)
        return answer()

    server = await serve(script)
    client = rest(server, pool_size=3)
    await asyncio.gather(*(client.send(Call("GET", server.url)) for _ in range(40)))
    # A connection goes back to the pool after its answer is read, so a new request may open one more meanwhile.
    assert server.most_open <= 6
    assert server.connections <= 3


async def test_p33_waiting_for_a_connection_counts_against_the_timeout(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: SILENCE)
    client = rest(server, pool_size=1)
    hog = asyncio.create_task(client.send(Call("GET", server.url)))
    while not server.requests:
        await asyncio.sleep(0)
    with pytest.raises(RequestTimeout):
        await client.send(Call("GET", server.url, timeout_s=1))
    assert len(server.requests) == 1
    hog.cancel()
    await asyncio.gather(hog, return_exceptions=True)


@pytest.mark.skipif(sys.platform != "linux", reason="fills the accept queue as Linux keeps it")
async def test_p33_a_host_that_does_not_answer_at_all_is_a_connect_error() -> None:
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # what is beyond the queue is dropped, as by a machine that is off
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        client = AsyncRESTClientObject(Configuration(url, connect_timeout_s=1))
        with pytest.raises(ConnectError, match="no connection in time"):
            await client.send(Call("GET", url))
        await client.close()


async def test_after_close_a_request_says_so(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer())
    client = rest(server)
    await client.send(Call("GET", server.url))
    await client.close()
    with pytest.raises(TransportError, match="closed"):
        await client.send(Call("GET", server.url))
    await client.close()


async def test_a_cancelled_request_leaves_the_client_usable(serve: Any, rest: Any) -> None:
    arrived = asyncio.Event()

    def script(seen: Any) -> Any:
        arrived.set()
        return SILENCE if seen.target == "/slow" else answer(body="ok")

    server = await serve(script)
    client = rest(server)
    task = asyncio.create_task(client.send(Call("GET", server.url + "/slow")))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await client.send(Call("GET", server.url + "/next"))).body == b"ok"


async def test_a_cancellation_is_never_lost_even_when_the_answer_comes_with_it(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer(body="ok"))
    client = rest(server)
    cancelled = 0
    for turn in range(400):
        task = asyncio.create_task(client.send(Call("GET", server.url)))
        for _ in range(turn % 20):  # another moment each time
            await asyncio.sleep(0)
        if task.cancel():
            cancelled += 1
            with pytest.raises(asyncio.CancelledError):
                await task
    assert cancelled > 0


async def test_a_cancellation_is_never_lost_even_when_the_failure_comes_with_it(serve: Any, rest: Any) -> None:
    client = rest(await serve(lambda seen: answer(body="ok")))
    cancelled = 0
    for turn in range(200):
        task = asyncio.create_task(client.send(Call("GET", "http://127.0.0.1:1/api")))
        for _ in range(turn % 4):
            await asyncio.sleep(0)
        await asyncio.sleep(0.0002 * (turn % 7))
        if task.cancel():
            cancelled += 1
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert task.exception() is not None
    assert cancelled > 0


async def test_one_client_serves_several_event_loops(serve: Any, rest: Any) -> None:
    server = await serve(lambda seen: answer(body="ok"))
    client = rest(server)
    await client.send(Call("GET", server.url))
    bodies = []

    def other_loop() -> None:
        bodies.append(asyncio.run(client.send(Call("GET", server.url))).body)

    thread = threading.Thread(target=other_loop)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert bodies == [b"ok"]


def test_p28_importing_the_client_loads_no_http_library() -> None:
    code = """
        import sys
        from conductor.client.http.async_rest import AsyncRESTClientObject
        from conductor.client.http.call import Call
        from conductor.client.http.async_api_client import AsyncApiClient
        from conductor.client.configuration.configuration import Configuration
        AsyncApiClient(Configuration())
        print([m for m in ("pyreqwest", "httpx", "requests", "aiohttp", "urllib3") if m in sys.modules])
    """
    assert run_python(code) == "[]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_client_used_before_a_fork_works_in_the_child() -> None:
    code = """
        import asyncio, http.server, os, sys, threading
        from conductor.client.configuration.configuration import Configuration
        from conductor.client.http.async_rest import AsyncRESTClientObject, TransportError
        from conductor.client.http.call import Call

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers()
                self.wfile.write(b"ok")
            def log_message(self, *_): pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        client = AsyncRESTClientObject(Configuration(url))
        get = lambda: asyncio.run(client.send(Call("GET", url, timeout_s=60))).body.decode()
        print("parent", get(), flush=True)
        child = os.fork()
        if child == 0:
            print("child", get(), get(), flush=True)
            grandchild = os.fork()
            if grandchild == 0:
                try:
                    get()
                except TransportError as error:
                    print("grandchild:", error, flush=True)
                os._exit(0)
            os._exit(os.waitpid(grandchild, 0)[1])
        print("exit", os.waitpid(child, 0)[1])
        print("parent", get())
    """
    parent, child, grandchild, *rest = run_python(code).splitlines()
    assert [parent, child, *rest] == ["parent ok", "child ok ok", "exit 0", "parent ok"]
    assert grandchild.endswith("start processes with the 'forkserver' or 'spawn' method")


@pytest.mark.parametrize("loop", ["main", "background"])
async def test_a_program_that_ends_right_after_an_answer_ends_well(serve: Any, loop: Any) -> None:
    server = await serve(lambda seen: answer(body="ok"))
    code = """
        import asyncio, sys, threading
        from conductor.client.configuration.configuration import Configuration
        from conductor.client.http.async_rest import AsyncRESTClientObject, TransportError
        from conductor.client.http.call import Call
        url, where = sys.argv[1:]
        client = AsyncRESTClientObject(Configuration(url))

        async def busy():
            try:
                while True:
                    await client.send(Call("GET", url))
            except TransportError:
                pass

        async def main():
            await client.send(Call("GET", url))
            main.tasks = [asyncio.ensure_future(busy()) for _ in range(10)]
            await asyncio.gather(*(client.send(Call("GET", url)) for _ in range(10)))

        if where == "main":
            asyncio.run(main())
        else:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
            asyncio.run_coroutine_threadsafe(main(), loop).result()
    """
    programs = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", textwrap.dedent(code), server.url, loop), stderr=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    errors = [(await program.communicate())[1].decode() for program in programs]
    assert [(program.returncode, error) for program, error in zip(programs, errors, strict=True)] == [(0, "")] * 3


def run_python(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=200).stdout.strip()


def test_the_error_tree_speaks_to_people() -> None:
    body = b'{"status":400,"message":"Validation failed","validationErrors":[{"path":"a","message":"name is empty"}]}'
    error = ApiException.of(Response(400, {"a": "b"}, body), "POST /metadata/taskdefs")
    assert str(error) == "POST /metadata/taskdefs answered 400: Validation failed name is empty"
    assert (error.status, error.code, error.headers, error.is_not_found()) == (400, 400, {"a": "b"}, False)
    page = ApiException.of(Response(502, {}, b"<html>\n <b>Bad\n gateway</b>" + b"x" * 1000), "GET /x")
    assert str(page).startswith("GET /x answered 502: a web page, which no Conductor server sends")
    noise = ApiException.of(Response(502, {}, b"Bad\n gateway " + b"x" * 1000), "GET /x")
    assert str(noise).startswith("GET /x answered 502: Bad gateway x")
    assert len(str(noise)) < 400
    assert len(str(page)) < 400
    assert str(ApiException.of(Response(503, {}, b""), "GET /x")) == "GET /x answered 503"


@pytest.mark.parametrize(
    ("status", "cls"), [(401, AuthorizationException), (403, AuthorizationException), (404, NotFoundException)]
)
def test_exceptions_have_the_class_of_their_status_and_survive_pickling(status: Any, cls: Any) -> None:
    error = ApiException.of(Response(status, {}, b'{"message":"no"}'), "GET /x")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) is cls
    assert (str(again), again.status, again.body) == (str(error), status, error.body)
