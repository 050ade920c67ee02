"""Hosts of their own on one machine: network namespaces, and the wire between them, which can go wrong.

A namespace has no name and nothing of it is in a file: it lives as long as a process or a descriptor of this one is in
it, so nothing is left behind, however the torture ends. Its only way out is a TUN device, and what it sends there this
process carries to the others, packet by packet: TCP on both ends is the kernel's own, and a packet can be lost, late or
sent twice without a module of the kernel that the machine may not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import selectors
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

NETWORK: Final = "10.213.0.0/24"
"""Of the hosts; it exists in their namespaces only."""
DEVICE: Final = "wire0"
_NEW_NETWORK: Final = 0x40000000
_SET_DEVICE: Final = 0x400454CA
_TUN_WITHOUT_HEADER: Final = 0x0001 | 0x1000
_LARGEST: Final = 65536
_OWN_NAMESPACE: Final = "/proc/thread-self/ns/net"
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace with one address. namespace, device: descriptors."""

    address: str
    namespace: int
    device: int

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What the calling thread starts or opens meanwhile belongs to this host."""
        own = os.open(_OWN_NAMESPACE, os.O_RDONLY)
        try:
            _checked(_LIBC.setns(self.namespace, _NEW_NETWORK), "setns")
            try:
                yield
            finally:
                _checked(_LIBC.setns(own, _NEW_NETWORK), "setns")
        finally:
            os.close(own)

    def link(self, state: str) -> None:
        """Take its device down or up; while it is down the kernel knows no way to the other hosts."""
        with self.inside():
            _ip("link", "set", DEVICE, state)


@dataclass(frozen=True, slots=True)
class Weather:
    """How a packet fares. lost, late, twice: shares of all packets; by: seconds of a late one, at most."""

    lost: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    by: float = 0.0


CALM: Final = Weather()


class Wire:
    """Carries packets from host to host in a thread of its own. cuts: pairs (from, to) that nothing passes between."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._hosts: dict[bytes, Host] = {}
        self._late: list[tuple[float, int, Host, bytes]] = []
        self._waiting = selectors.DefaultSelector()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self.weather = CALM
        self.cuts: frozenset[tuple[Host, Host]] = frozenset()
        self.carried = self.lost = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._waiting.close()
        for host in self._hosts.values():
            os.close(host.device)
            os.close(host.namespace)

    def host(self) -> Host:
        """A new host, connected to all others. OSError: this machine or its user may not."""
        host = _made(f"10.213.0.{len(self._hosts) + 1}")
        self._hosts[bytes(int(part) for part in host.address.split("."))] = host
        self._waiting.register(host.device, selectors.EVENT_READ, host)
        return host

    def cut(self, one: Host, other: Host) -> None:
        """Nothing passes between these, in either direction."""
        self.cuts |= {(one, other), (other, one)}

    def heal(self) -> None:
        """Everything passes again."""
        self.cuts, self.weather = frozenset(), CALM

    def _run(self) -> None:
        while not self._over.is_set():
            for key, _ in self._waiting.select(self._pause()):
                with contextlib.suppress(OSError):  # its link is down
                    self._take(key.data, os.read(key.fd, _LARGEST))
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, host, packet = heapq.heappop(self._late)
                self._give(host, packet)

    def _pause(self) -> float:
        return min(0.1, max(0.0, self._late[0][0] - time.monotonic())) if self._late else 0.1

    def _take(self, sender: Host, packet: bytes) -> None:
        receiver = self._hosts.get(packet[16:20]) if packet[0] >> 4 == 4 else None  # noqa: PLR2004 - IPv4, whose addresses stand there
        if receiver is None:
            return
        weather, self.carried = self.weather, self.carried + 1
        if (sender, receiver) in self.cuts or self._random.random() < weather.lost:
            self.lost += 1
            return
        if self._random.random() < weather.late:
            until = time.monotonic() + self._random.random() * weather.by
            heapq.heappush(self._late, (until, self.carried, receiver, packet))
        else:
            self._give(receiver, packet)
        if self._random.random() < weather.twice:
            self._give(receiver, packet)

    @staticmethod
    def _give(receiver: Host, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # its link is down
            os.write(receiver.device, packet)


def lacking() -> str:
    """Why this machine has no hosts of their own to offer; empty: it has."""
    try:
        host = _made("10.213.0.1")
    except OSError as error:
        return f"no network namespaces with a TUN device here ({error}); root and /dev/net/tun are needed"
    os.close(host.device)
    os.close(host.namespace)
    return ""


def _made(address: str) -> Host:
    """In a thread of its own, which is the only one that moves to the new namespace, and ends."""
    made: list[Host | BaseException] = []

    def make() -> None:
        try:
            made.append(_unshared(address))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    host = made[0]
    if isinstance(host, BaseException):
        raise host
    return host


def _unshared(address: str) -> Host:
    with contextlib.ExitStack() as undo:
        _checked(_LIBC.unshare(_NEW_NETWORK), "unshare")
        device = os.open("/dev/net/tun", os.O_RDWR)
        undo.callback(os.close, device)
        fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH14x", DEVICE.encode(), _TUN_WITHOUT_HEADER))
        os.set_blocking(device, False)
        _ip("link", "set", "lo", "up")
        _ip("address", "add", f"{address}/{NETWORK.partition('/')[2]}", "dev", DEVICE)
        _ip("link", "set", DEVICE, "up")
        namespace = os.open(_OWN_NAMESPACE, os.O_RDONLY)
        undo.pop_all()
        return Host(address, namespace, device)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)  # noqa: S607 - where the machine has it
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _checked(answer: int, what: str) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
