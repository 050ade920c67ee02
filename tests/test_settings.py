from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock.errors import ConfigurationError
from rowlock.settings import Settings, lanes_from_text


def test_what_is_not_set_keeps_its_default() -> None:
    assert Settings.from_env({}) == Settings.from_env({"ROWLOCK_LISTEN": " "}) == Settings()


def test_variables_are_read_as_people_write_them() -> None:
    read = Settings.from_env({"ROWLOCK_LISTEN": "off", "ROWLOCK_SHUTDOWN_AFTER": "5s", "ROWLOCK_BLOCKED_LIMIT": "off"})
    assert (read.listen, read.shutdown_after, read.blocked_limit) == (False, timedelta(seconds=5), None)


@pytest.mark.parametrize(
    ("name", "value"), [("ROWLOCK_LISTEN", "perhaps"), ("ROWLOCK_SHUTDOWN_AFTER", "soon"), ("ROWLOCK_LANES", "front:x")]
)
def test_an_unreadable_variable_is_named_with_its_value(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} cannot be read: .*{value}"):
        Settings.from_env({name: value})


def test_lanes_are_read_as_text_and_as_json() -> None:
    written = lanes_from_text("fast:kinds=ping|pong,slots=3;slow:kinds=*,slots=1")
    assert [(lane.name, lane.kinds, lane.slots) for lane in written] == [
        ("fast", ("ping", "pong"), 3),
        ("slow", ("*",), 1),
    ]
    assert lanes_from_text('[{"name": "fast", "kinds": ["ping", "pong"], "slots": 3}]') == written[:1]


@pytest.mark.parametrize("text", ["a b:slots=1", "a:slots", "a:slos=1", "a:order=random", "[1]"])
def test_what_is_no_lane_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"lane|order"):
        lanes_from_text(text)


def test_a_lane_takes_the_old_names_of_its_settings_too() -> None:
    now = "front:poll_interval=2s,heartbeat_timeout=30s,progress_timeout=10m,aging_interval=1h,order=fair"
    before = "front:poll=2s,stale=30s,stall=10m,age=1h,order=fair"
    assert lanes_from_text(before) == lanes_from_text(now)
    with pytest.raises(ConfigurationError, match="poll and poll_interval are one setting"):
        Settings.from_env({"ROWLOCK_LANES": "front:poll=2s,poll_interval=3s"})


def test_a_token_that_is_easily_guessed_is_refused_and_not_repeated() -> None:
    for text in ("short", "fifteen-letters", "with spaces in the middle", "ü" * 20):
        with pytest.raises(ConfigurationError, match="16 to 200") as refused:
            Settings.from_env({"ROWLOCK_SERVE_TOKEN": text})
        assert text not in str(refused.value)
    assert Settings.from_env({"ROWLOCK_SERVE_TOKEN": "a" * 16}).serve_token == "a" * 16


def test_proxies_are_networks_and_limits_are_above_zero() -> None:
    read = Settings.from_env({"ROWLOCK_TRUSTED_PROXIES": "10.0.0.0/8, ::1", "ROWLOCK_SERVE_IDLE_TIMEOUT": "1m"})
    assert (read.trusted_proxies, read.serve_idle_timeout) == (("10.0.0.0/8", "::1"), timedelta(minutes=1))
    for name, text in {
        "ROWLOCK_TRUSTED_PROXIES": "proxy.example",
        "ROWLOCK_SERVE_STREAMS": "0",
        "ROWLOCK_SERVE_CONNECTIONS": "-1",
        "ROWLOCK_SERVE_HEADER_TIMEOUT": "0s",
        "ROWLOCK_SERVE_BODY_TIMEOUT": "soon",
    }.items():
        with pytest.raises(ConfigurationError, match=name):
            Settings.from_env({name: text})


def test_an_installation_has_a_name_and_one_of_six_colours() -> None:
    read = Settings.from_env({"ROWLOCK_INSTANCE": "production", "ROWLOCK_INSTANCE_COLOUR": "Red"})
    assert (read.instance, read.instance_colour) == ("production", "red")
    assert (Settings().instance, Settings().instance_colour) == (None, "grey")
    with pytest.raises(ConfigurationError, match="expected one of grey, blue, green, amber, red, purple"):
        Settings.from_env({"ROWLOCK_INSTANCE_COLOUR": "#f00"})
    with pytest.raises(ConfigurationError, match="at most 40 printable characters"):
        Settings.from_env({"ROWLOCK_INSTANCE": "x" * 41})
