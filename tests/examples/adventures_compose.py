"""What the compose specification allows, as far as the files of examples/adventures use it: no key beside these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = re.compile(r"(?<!\$)\$\{(\w+)(:-[^}]*|:\?[^}]*)?\}")
Duration = Annotated[str, Field(pattern=r"^(\d+(us|ms|s|m|h))+$")]
Size = Annotated[str, Field(pattern=r"^\d+(\.\d+)?[bkmgBKMG]b?$")]


class Strict(BaseModel):
    """Refuses every key that is not named, and every value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Build(Strict):
    context: str
    dockerfile: str


class Healthcheck(Strict):
    test: Annotated[list[str], Field(min_length=2)]
    interval: Duration
    timeout: Duration
    retries: int


class Needs(Strict):
    condition: Literal["service_started", "service_healthy", "service_completed_successfully"]


class Limits(Strict):
    cpus: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")]
    memory: Size


class Resources(Strict):
    limits: Limits


class Deploy(Strict):
    resources: Resources


class Service(Strict):
    image: str | None = None
    build: Build | None = None
    command: str | None = None
    environment: dict[str, str] = {}
    ports: list[Annotated[str, Field(pattern=r"^127\.0\.0\.1:\d+:\d+$")]] = []
    volumes: list[Annotated[str, Field(pattern=r"^[\w./-]+:/[\w./-]+(:(z|ro))?$")]] = []
    tmpfs: list[str] = []
    healthcheck: Healthcheck | None = None
    depends_on: dict[str, Needs] = {}
    restart: Literal["no", "always", "on-failure", "unless-stopped"] | None = None
    stop_grace_period: Duration | None = None
    deploy: Deploy | None = None


class ComposeFile(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    services: dict[str, Service]
    volumes: dict[str, None] = {}


def compose_file(path: Path) -> ComposeFile:
    """The file, checked."""
    return ComposeFile.model_validate(yaml.safe_load(path.read_text()))


def demanded(text: str) -> set[str]:
    """Variables without which compose refuses to start: ${NAME:?}. A plain ${NAME} would silently be empty."""
    found = VARIABLE.findall(text)
    plain = sorted(name for name, otherwise in found if not otherwise)
    assert plain == []
    return {name for name, otherwise in found if otherwise.startswith(":?")}
