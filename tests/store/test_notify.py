"""Messages that statements and database functions write themselves are those of rowlock.model.notify_messages."""

from __future__ import annotations

import re
from importlib.resources import files

from rowlock.model.notify_messages import decode

SAMPLES = {"wake": "[]", "cancel": "[1]", "lost": "[1]", "done": "[1]", "key": '"1","next":"2"'}


def test_every_message_that_sql_writes_is_known() -> None:
    store = files("rowlock.store")
    texts = [
        path.read_text()
        for folder in ("sql", "migrations")
        for path in store.joinpath(folder).iterdir()
        if path.name.endswith(".sql")
    ]
    keys = {key for text in texts for key in re.findall(r"pg_notify\([^;]*?json_build_object\('(\w+)'", text)}
    keys |= {key for text in texts for key in re.findall(r"fragment: one_low\njson_build_object\('(\w+)'", text)}
    assert keys == SAMPLES.keys()
    for key, value in SAMPLES.items():
        assert decode(f'{{"{key}":{value}}}') is not None
