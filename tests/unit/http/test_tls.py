"""P18: TLS settings take effect. A private authority, client certificates, HTTP/2 by ALPN, on real sockets."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import AsyncRESTClientObject, ConnectError, TransportError
from conductor.client.http.call import Call
from tests.unit.http.certificates import Authority
from tests.unit.http.raw_server import RESET, RawServer, answer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def get(url: str, **options: Any) -> bytes:
    options = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    client = AsyncRESTClientObject(Configuration(url, **options))
    try:
        return (await client.send(Call("GET", url + "/x", timeout_s=60))).body
    finally:
        await client.close()


async def test_a_private_authority_is_trusted_when_configured(serve: Any, authority: Authority) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    assert await get(server.url, ssl_ca_cert=authority.file) == b"ok"


async def test_the_environment_configures_it_too(
    serve: Any, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    monkeypatch.setenv("CONDUCTOR_TLS_CA_FILE", str(authority.file))
    assert await get(server.url) == b"ok"


async def test_an_unknown_authority_is_refused(serve: Any, authority: Authority, tmp_path: Path) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    with pytest.raises(ConnectError, match="certificate"):
        await get(server.url)
    with pytest.raises(ConnectError, match="certificate"):
        await get(server.url, ssl_ca_cert=Authority(tmp_path, "stranger").file)
    assert server.requests == []


async def test_a_port_without_tls_is_told_as_such() -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectError, match=r"is it http:// rather than https://\?"):
            await get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_verification_can_be_turned_off(serve: Any, authority: Authority) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    assert await get(server.url, verify_ssl=False) == b"ok"


async def test_every_authority_of_a_bundle_counts(serve: Any, authority: Authority, tmp_path: Path) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(Authority(tmp_path, "stranger").file.read_bytes() + b"\n# ours\n" + authority.file.read_bytes())
    assert await get(server.url, ssl_ca_cert=bundle) == b"ok"


@pytest.mark.parametrize("files", ["two", "one"])
async def test_a_client_certificate_is_shown(serve: Any, authority: Authority, tmp_path: Path, files: str) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context(clients=authority.file))
    certificate, key = authority.issue("client")
    if files == "one":
        certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    options = {"key_file": key} if files == "two" else {}
    assert await get(server.url, ssl_ca_cert=authority.file, cert_file=certificate, **options) == b"ok"
    with pytest.raises(TransportError):
        await get(server.url, ssl_ca_cert=authority.file)
    stranger, stranger_key = Authority(tmp_path, "stranger").issue("client")
    with pytest.raises(TransportError):
        await get(server.url, ssl_ca_cert=authority.file, cert_file=stranger, key_file=stranger_key)


async def test_a_broken_file_is_named(serve: Any, authority: Authority, tmp_path: Path) -> None:
    server = await serve(lambda seen: answer(body="ok"), authority.server_context())
    certificate, key = authority.issue("client")
    broken = tmp_path / "broken.pem"
    broken.write_bytes(certificate.read_bytes().replace(b"M", b"!"))
    with pytest.raises(TransportError, match=r"ssl_ca_cert=.*broken\.pem"):
        await get(server.url, ssl_ca_cert=broken)
    with pytest.raises(TransportError, match=r"cert_file=.*broken\.pem"):
        await get(server.url, ssl_ca_cert=authority.file, cert_file=broken, key_file=key)


class Http2Server(RawServer):
    """Speaks HTTP/2 alone. Its first connection goes deaf after as many answers as `hears`."""

    hears = 1_000_000

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http2.initiate_connection()
        writer.write(http2.data_to_send())
        while data := await reader.read(65536):
            for event in http2.receive_data(data):
                if isinstance(event, h2.events.StreamEnded):
                    http2.send_headers(event.stream_id, [(":status", "200"), ("x-protocol", "h2")])
                    http2.send_data(event.stream_id, b"two", end_stream=True)
                    self.hears -= 1
            writer.write(http2.data_to_send())
            if connection == 1 and self.hears <= 0:
                await asyncio.Event().wait()


async def test_http2_is_spoken_where_the_server_offers_it(authority: Authority) -> None:
    server = Http2Server(ssl_context=authority.server_context(alpn=["h2"]))
    await server.start()
    client = AsyncRESTClientObject(Configuration(server.url, ssl_ca_cert=str(authority.file)))
    answers = [await client.send(Call("GET", server.url))]
    answers += await asyncio.gather(*(client.send(Call("POST", server.url + "/tasks", body=b"{}")) for _ in range(20)))
    assert {(a.status, a.headers["x-protocol"], a.body) for a in answers} == {(200, "h2", b"two")}
    assert server.connections == 1  # streams share a connection
    await client.close()
    await server.stop()


async def test_p33_a_dead_http2_connection_is_noticed_and_replaced(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.client.http.async_rest.HTTP2_PING_S", 0.1)
    server = Http2Server(ssl_context=authority.server_context(alpn=["h2"]))
    server.hears = 1
    await server.start()
    options: dict[str, Any] = {"ssl_ca_cert": str(authority.file), "connect_timeout_s": 3}
    client = AsyncRESTClientObject(Configuration(server.url, **options))
    for _ in range(3):  # no request waits for its own timeout of 30 s
        assert (await client.send(Call("GET", server.url))).body == b"two"
    assert server.connections > 1
    await client.close()
    await server.stop()


async def test_a_server_stops_after_its_tls_connections_have_ended_c13(authority: Authority) -> None:
    """Python 3.11.2, which Debian 12 has, cannot abort a TLS transport that was closed twice."""
    server = RawServer(lambda seen: RESET, authority.server_context())
    await server.start()
    with pytest.raises(TransportError):
        await get(server.url, ssl_ca_cert=authority.file)
    await server.stop()


async def test_http2_can_be_turned_off(serve: Any, authority: Authority) -> None:
    offered: list[str | None] = []
    context = authority.server_context(alpn=["h2", "http/1.1"])

    class Recording(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            offered.append(self.selected_alpn_protocol())

    context.sslobject_class = Recording
    server = await serve(lambda seen: answer(body="one"), context)
    assert await get(server.url, ssl_ca_cert=authority.file, http2=False) == b"one"
    assert offered in ([None], ["http/1.1"])
