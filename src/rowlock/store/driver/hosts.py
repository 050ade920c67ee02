"""Hosts: the servers that one URL names, tried one after the other, and which of them comes first."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_ATTRIBUTES: Final = "target_session_attrs"


class Hosts:
    """The URL with its hosts in the order in which they are to be tried.

    The driver tries them in turn but has one time limit for all: a host that neither answers nor refuses would use it
    up every time. So after such a try the next host comes first.
    """

    def __init__(self, url: str, wanted: str = "read-write") -> None:
        """wanted: target_session_attrs of several hosts, unless the URL or PGTARGETSESSIONATTRS says."""
        self._url, self._wanted, self._first = url, wanted, 0
        parts = urlsplit(url)
        self._user, at, listed = parts.netloc.rpartition("@")
        self._user += at
        self._query = dict(parse_qsl(parts.query))
        self._in_query = not listed and "," in self._query.get("host", "") and "," not in self._query.get("port", "")
        self._names = (self._query["host"] if self._in_query else listed).split(",")

    def __len__(self) -> int:
        return len(self._names)

    @property
    def url(self) -> str:
        """The URL; with several hosts it says which of them is wanted."""
        if len(self) == 1:
            return self._url
        turn = self._first % len(self)
        hosts = ",".join([*self._names[turn:], *self._names[:turn]])
        query = dict(self._query)
        if _ATTRIBUTES not in query and "PGTARGETSESSIONATTRS" not in os.environ:
            query[_ATTRIBUTES] = self._wanted
        if self._in_query:
            query["host"] = hosts
        netloc = self._user + ("" if self._in_query else hosts)
        return urlunsplit(urlsplit(self._url)._replace(netloc=netloc, query=urlencode(query)))

    def pass_on(self) -> None:
        """Try the next host first from now on."""
        self._first += 1
