"""One POST to a real server: slow ones, broken ones, TLS, and names that point elsewhere the next time."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.waiting import until_cancelled
from tests.webhook_receiver import LOOPBACK, receiving

from rowlock.errors import WebhookFailed, WebhookRefused
from rowlock.model.webhook import split_url
from rowlock.model.webhook_rules import WebhookRules
from rowlock.webhooks.addresses import allowed_addresses, resolved
from rowlock.webhooks.http_post import HttpAnswer, post

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rowlock.webhooks.addresses import Resolve

HERE = WebhookRules(LOOPBACK, http=True)
HEADERS = {"Content-Type": "application/json"}


async def send(
    url: str, *, rules: WebhookRules = HERE, resolve: Resolve = resolved, seconds: float = 30.0
) -> HttpAnswer:
    return await post(split_url(url), HEADERS, b"{}", rules=rules, resolve=resolve, seconds=seconds)


def leads_to(*addresses: str) -> Resolve:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return resolve


def answering(raw: bytes) -> object:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return answer


async def test_the_name_is_sent_and_the_address_is_connected_to() -> None:
    async with receiving() as receiver:
        url = f"http://hooks.example.com:{receiver.port}/in?a=1"
        assert (await send(url, resolve=leads_to("127.0.0.1"))).status == 204
    (message,) = receiver.messages
    assert (message.path, message.headers["host"]) == ("/in?a=1", f"hooks.example.com:{receiver.port}")


async def test_a_name_that_points_elsewhere_after_the_check_is_not_asked_again() -> None:
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with receiving() as receiver, receiving(host="127.0.0.2") as secret:
        url = f"http://hooks.example.com:{receiver.port}/"
        await send(url, resolve=rebinding, rules=WebhookRules(("127.0.0.1/32",), http=True))
        assert (asked, receiver.connections, secret.connections) == (["hooks.example.com"], 1, 0)
        with pytest.raises(WebhookRefused, match=r"is not a public address, nor does it lead to one"):
            await send(url, resolve=rebinding, rules=WebhookRules(("127.0.0.1/32",), http=True))
        assert (receiver.connections, secret.connections) == (1, 0)


async def test_of_several_addresses_only_those_that_are_allowed_are_connected_to() -> None:
    rules = WebhookRules(("127.0.0.1/32",), http=True)
    resolve = leads_to("10.0.0.1", "127.0.0.2", "127.0.0.1", "169.254.169.254")
    assert await allowed_addresses("x", 80, rules, resolve) == ["127.0.0.1"]
    async with receiving() as receiver:
        await send(f"http://x:{receiver.port}/", resolve=leads_to("127.0.0.9", "127.0.0.1"))
    assert receiver.connections == 1


async def test_private_addresses_are_refused_before_a_connection_is_made() -> None:
    async with receiving() as receiver:
        for rules in (WebhookRules(http=True), WebhookRules(("10.0.0.0/8",), http=True)):
            with pytest.raises(WebhookRefused, match="ROWLOCK_WEBHOOK_NETWORKS"):
                await send(receiver.url, rules=rules)
            with pytest.raises(WebhookRefused):
                await send(receiver.url.replace("127.0.0.1", "localhost"), rules=rules)
        assert not receiver.connections


async def test_http_is_refused_unless_it_is_allowed() -> None:
    async with receiving() as receiver:
        with pytest.raises(WebhookRefused, match="ROWLOCK_WEBHOOK_HTTP=on"):
            await send(receiver.url, rules=WebhookRules(LOOPBACK))
        assert not receiver.connections


async def test_an_endpoint_that_is_down_is_said_to_be(unused_tcp_port: int) -> None:
    with pytest.raises(WebhookFailed, match="no connection: "):
        await send(f"http://127.0.0.1:{unused_tcp_port}/")


async def test_an_endpoint_that_answers_too_slowly_is_left() -> None:
    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await until_cancelled()

    async with receiving() as receiver:
        receiver.answers = [silent]
        with pytest.raises(WebhookFailed, match=r"no answer within 0\.2 s"):
            await send(receiver.url, seconds=0.2)


async def test_an_endpoint_that_trickles_its_answer_is_left() -> None:
    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with receiving() as receiver:
        receiver.answers = [trickle]
        with pytest.raises(WebhookFailed, match=r"no answer within 0\.3 s"):
            await send(receiver.url, seconds=0.3)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "the connection was closed without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", r"the answer is not HTTP/1\.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", "the head of the answer is longer than 16384 bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 6, "only interim answers came"),
    ],
)
async def test_a_broken_answer_is_a_failure(raw: bytes, said: str) -> None:
    async with receiving() as receiver:
        receiver.answers = [answering(raw)]  # type: ignore[list-item]  # a function
        with pytest.raises(WebhookFailed, match=said):
            await send(receiver.url)


async def test_an_interim_answer_is_passed_over_and_a_body_is_not_read() -> None:
    async with receiving() as receiver:
        raw = (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.0 503 Busy\r\nretry-after: 7\r\n\r\n" + b"x" * 1_000_000
        )
        receiver.answers = [answering(raw)]  # type: ignore[list-item]  # a function
        assert await send(receiver.url) == HttpAnswer(503, 7.0)


async def test_a_name_that_cannot_be_resolved_is_a_failure() -> None:
    async def nowhere(_host: str, _port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(WebhookFailed, match="no connection: Name or service not known"):
        await send("http://nowhere.invalid/", resolve=nowhere)


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's context with a certificate for the name, and the file that trusts it."""
    key, who = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.7"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    return context


async def test_the_certificate_is_checked_against_the_name_and_not_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = certificate(tmp_path, "hooks.example.com")
    rules = WebhookRules(LOOPBACK)
    async with receiving(context) as receiver:
        url = f"https://hooks.example.com:{receiver.port}/"
        with pytest.raises(WebhookFailed, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await send(url, rules=rules, resolve=leads_to("127.0.0.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert (await send(url, rules=rules, resolve=leads_to("127.0.0.1"))).status == 204
        with pytest.raises(WebhookFailed, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await send(url.replace("hooks.", "other."), rules=rules, resolve=leads_to("127.0.0.1"))
        assert len(receiver.messages) == 1


async def test_the_system_resolver_answers_with_texts() -> None:
    assert await resolved("127.0.0.1", 80) == ["127.0.0.1"]
