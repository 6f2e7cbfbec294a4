"""P18: a proxy is used when it is configured: plain requests are forwarded, TLS goes through CONNECT."""

import asyncio
import base64
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import AsyncRESTClientObject, ConnectError
from conductor.client.http.call import Call
from tests.unit.http.certificates import Authority
from tests.unit.http.raw_server import RawServer, Seen, answer, read_request


class Proxy(RawServer):
    """A forward proxy with CONNECT. Every name leads to 127.0.0.1."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        seen = await read_request(reader, connection)
        self.requests.append(seen)
        port = int(seen.target.rpartition(":")[2]) if seen.method == "CONNECT" else urlsplit(seen.target).port
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            if seen.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server_writer.write(self._direct(seen))
            await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
        finally:
            server_writer.transport.abort()

    def _direct(self, seen: Seen) -> bytes:
        parts = urlsplit(seen.target)
        head = f"{seen.method} {parts.path} HTTP/1.1\r\nvia: proxy\r\ncontent-length: {len(seen.body)}\r\n\r\n"
        return head.encode() + seen.body


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@pytest.fixture
async def proxy() -> Any:
    server = Proxy()
    await server.start()
    yield server
    await server.stop()


async def send(configuration: Configuration, url: str) -> bytes:
    client = AsyncRESTClientObject(configuration)
    try:
        return (await client.send(Call("POST", url, body=b"hello", timeout_s=60))).body
    finally:
        await client.close()


async def test_plain_requests_are_forwarded(serve: Any, proxy: Proxy) -> None:
    server = await serve(lambda seen: answer(body=seen.body))
    configuration = Configuration(server.url, proxy=proxy.url)
    assert await send(configuration, server.url + "/tasks") == b"hello"
    assert [seen.target for seen in proxy.requests] == [server.url + "/tasks"]
    assert server.requests[0].headers["via"] == "proxy"


async def test_tls_goes_through_connect(serve: Any, proxy: Proxy, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = await serve(lambda seen: answer(body=seen.body), authority.server_context())
    configuration = Configuration(server.url, proxy=proxy.url, ssl_ca_cert=str(authority.file))
    assert await send(configuration, server.url + "/tasks") == b"hello"
    assert [(seen.method, seen.target) for seen in proxy.requests] == [("CONNECT", f"127.0.0.1:{server.port}")]


async def test_credentials_and_headers_are_for_the_proxy_alone(serve: Any, proxy: Proxy, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = await serve(lambda seen: answer(body=seen.body), authority.server_context())
    configuration = Configuration(
        server.url,
        proxy=f"http://ada:love%20lace@127.0.0.1:{proxy.port}",
        proxy_headers={"X-Department": "engines"},
        ssl_ca_cert=str(authority.file),
    )
    assert await send(configuration, server.url) == b"hello"
    (connect,), (seen,) = proxy.requests, server.requests
    assert connect.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"ada:love lace").decode()
    assert connect.headers["x-department"] == "engines"
    assert "proxy-authorization" not in seen.headers
    assert "x-department" not in seen.headers


async def test_the_proxy_comes_from_our_environment_variable(
    serve: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda seen: answer(body=seen.body))
    monkeypatch.setenv("CONDUCTOR_PROXY", proxy.url)
    assert await send(Configuration(server.url), server.url) == b"hello"
    assert len(proxy.requests) == 1


async def test_the_machines_proxy_variables_do_not_count_for_a_server_on_this_machine(
    serve: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda seen: answer(body=seen.body))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("http_proxy", proxy.url)
    assert await send(Configuration(server.url), server.url) == b"hello"
    assert proxy.requests == []


async def test_the_machines_proxy_variables_count_for_other_servers(
    serve: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda seen: answer(body=seen.body))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("http_proxy", proxy.url)
    url = f"http://conductor.invalid:{server.port}"
    assert await send(Configuration(url), url) == b"hello"
    assert len(proxy.requests) == 1


async def test_a_proxy_that_is_not_there_is_a_connect_error(serve: Any, proxy: Proxy) -> None:
    server = await serve(lambda seen: answer(body=seen.body))
    await proxy.stop()
    with pytest.raises(ConnectError):
        await send(Configuration(server.url, proxy=proxy.url), server.url)
    assert server.requests == []
