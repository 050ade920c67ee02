"""Reads the files of deploy/: manifests of Kubernetes, units of systemd."""

from __future__ import annotations

import configparser
from typing import TYPE_CHECKING, Any, Final

import yaml
from tests.docs.named_places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY: Final = ROOT / "deploy"
BASE: Final = DEPLOY / "kubernetes" / "base"
KEDA: Final = DEPLOY / "kubernetes" / "keda"
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))


def manifests(folder: Path = BASE) -> list[dict[str, Any]]:
    return [
        document
        for file in sorted(folder.glob("*.yaml"))
        if file.name != "kustomization.yaml"
        for document in yaml.safe_load_all(file.read_text())
    ]


def pod_templates() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each manifest that makes pods, and the template of these."""
    found = []
    for manifest in manifests():
        match manifest:
            case {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}:
                found.append((manifest, template))
            case {"spec": {"template": template}}:
                found.append((manifest, template))
            case _:
                pass  # a manifest without pods
    return found


def named(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def unit(file: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]  # names of directives keep their capitals
    found.read_string(file.read_text())
    return found
