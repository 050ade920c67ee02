"""Hosts of their own: they reach each other over the wire only, it fails as told, and nothing of it is left."""

from __future__ import annotations

import argparse
import contextlib
import socket
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

import pytest
from torture.namespaces import Hosts
from torture.scenario import Scenario
from torture.wire import Weather, Wire, lacking

from torture import __main__ as torture
from torture import wire as wires

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torture.wire import Host

MANY = 200


@pytest.fixture
def wire() -> Iterator[Wire]:
    if why := lacking():
        pytest.skip(why)
    with Wire(Random(1)) as wire:  # noqa: S311 - which packets, not secrets
        yield wire


@pytest.fixture
def post() -> Iterator[Callable[[Host], Post]]:
    with contextlib.ExitStack() as stack:
        yield lambda host: stack.enter_context(contextlib.closing(Post(host)))


class Post:
    """A socket of a host for datagrams: what is lost stays lost."""

    def __init__(self, host: Host) -> None:
        self._host = host
        with host.inside():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host.address, 4000))

    def send(self, other: Post, word: bytes) -> None:
        self._socket.sendto(word, (other._host.address, 4000))

    def close(self) -> None:
        self._socket.close()

    def heard(self, within: float = 5) -> bytes:
        self._socket.settimeout(within)
        return self._socket.recv(100)


def test_a_cut_has_a_direction(wire: Wire, post: Callable[[Host], Post]) -> None:
    hosts = [wire.host() for _ in range(3)]
    one, two, three = (post(host) for host in hosts)
    one.send(two, b"hello")
    assert two.heard() == b"hello"
    wire.cuts = frozenset({(hosts[0], hosts[1])})
    one.send(two, b"lost")
    one.send(three, b"to a third")
    two.send(one, b"the other way")
    assert (one.heard(), three.heard()) == (b"the other way", b"to a third")
    wire.heal()
    one.send(two, b"again")
    assert two.heard() == b"again"
    assert wire.lost == 1


def test_weather_loses_delays_and_repeats(wire: Wire, post: Callable[[Host], Post]) -> None:
    one, two = post(wire.host()), post(wire.host())
    wire.weather = Weather(lost=0.25, late=0.25, twice=0.1, by=0.01)
    for number in range(MANY):
        one.send(two, b"%d" % number)
        while wire.carried <= number:
            pass  # the queue of the device is short
    wire.heal()
    one.send(two, b"last")
    heard = [two.heard()]
    while True:
        try:
            heard.append(two.heard(0.2))
        except TimeoutError:
            break
    numbers = [int(word) for word in heard if word != b"last"]
    assert 0.15 * MANY < wire.lost < 0.35 * MANY
    assert len(set(numbers)) == MANY - wire.lost
    assert len(numbers) > len(set(numbers))
    assert numbers != sorted(numbers)


def test_a_link_that_is_down_knows_no_way(wire: Wire, post: Callable[[Host], Post]) -> None:
    host, other = wire.host(), wire.host()
    one, two = post(host), post(other)
    host.link("down")
    with pytest.raises(OSError, match="unreachable"):
        one.send(two, b"lost")
    host.link("up")
    one.send(two, b"hello")
    assert two.heard() == b"hello"


def test_nothing_of_a_host_is_seen_outside(wire: Wire) -> None:
    def devices() -> set[str]:
        return {path.name for path in Path("/sys/class/net").iterdir()}

    before, own = devices(), Path("/proc/thread-self/ns/net").readlink()
    host = wire.host()
    with host.inside():
        assert Path("/proc/thread-self/ns/net").readlink() != own
    assert Path("/proc/thread-self/ns/net").readlink() == own
    assert devices() == before


async def test_what_cannot_be_run_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Installed(Scenario):
        name: ClassVar = "installed"
        needs: ClassVar = "no-such-program"

    monkeypatch.setattr(wires, "lacking", lambda: "no network namespaces here")
    monkeypatch.setattr(torture, "SCENARIOS", {"installed": Installed, "hosts": Hosts})
    asked = argparse.Namespace(seconds=None, long=False, out=Path("nowhere"))
    assert await torture._all(["installed", "hosts"], None, asked) == []  # type: ignore[arg-type]  # no server is needed
    assert capsys.readouterr().err == (
        "installed: not run: no-such-program is not installed\nhosts: not run: no network namespaces here\n"
    )
