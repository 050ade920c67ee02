"""Every file of deploy/ is what its reader expects: valid for its schema or linter, and consistent with the others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import check_jsonschema
import jsonschema
import kubernetes_validate
import pytest
import yaml
from tests.deploy.deploy_files import BASE, DEPLOY, KEDA, UNITS, manifests, named, pod_templates, unit
from tests.docs.named_places import ROOT

from rowlock.flow.worker.health import HUNG_AFTER
from rowlock.model.times.duration import duration
from rowlock.settings import Settings

COMPOSE: Final = sorted((DEPLOY / "compose").glob("*.yaml"))
OLDEST_KUBERNETES: Final = "1.30"
"""The first whose lifecycle hooks can sleep."""


class Compose(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """YAML as Compose reads it: !reset takes a value of the file before away."""


Compose.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("manifest", manifests(), ids=named)
def test_each_manifest_fits_the_schema_of_kubernetes(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_member_of_a_manifest_is_noticed() -> None:
    (worker,) = [each for each in manifests() if named(each) == "Deployment/worker-default"]
    worker["spec"]["template"]["spec"]["terminationGracePeriod"] = 90
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(worker, OLDEST_KUBERNETES, strict=True)


def test_kustomize_lists_every_file_but_the_example_of_a_secret() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    files = {file.name for file in BASE.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(listed["resources"]) == files
    scaled = yaml.safe_load((KEDA / "kustomization.yaml").read_text())
    assert all((KEDA / resource).exists() for resource in scaled["resources"])


def test_pods_run_without_rights_and_find_what_they_name() -> None:
    images = {image["name"] for image in yaml.safe_load((BASE / "kustomization.yaml").read_text())["images"]}
    made = {each["metadata"]["name"] for each in manifests() if each["kind"] in ("ConfigMap", "Secret")}
    for manifest, template in pod_templates():
        pod, name = template["spec"], named(manifest)
        assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True), name
        (container,) = pod["containers"]
        rights = container["securityContext"]
        assert (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (False, True), name
        assert rights["capabilities"] == {"drop": ["ALL"]}, name
        assert container["image"] in images, name
        sources = {ref["name"] for each in container["envFrom"] for ref in each.values()}
        assert sources <= made, name
        assert ("rowlock-owner" in sources) == (name == "Job/rowlock-migrate")
        assert {"requests", "limits"} <= container["resources"].keys(), name


def test_selectors_find_their_pods() -> None:
    labels = {template["metadata"]["labels"]["app.kubernetes.io/name"] for _, template in pod_templates()}
    for manifest in manifests():
        match manifest:
            case {"kind": "Service", "spec": {"selector": {"app.kubernetes.io/name": wanted}}}:
                assert wanted in labels
            case {"spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": wanted}}}}:
                assert wanted in labels
            case _:
                pass
    (policy,) = [each for each in manifests() if each["kind"] == "NetworkPolicy"]
    chosen = policy["spec"]["podSelector"]["matchLabels"].items()
    assert [named(each) for each, pod in pod_templates() if chosen <= pod["metadata"]["labels"].items()] == [
        "Deployment/worker-default"
    ]


def test_a_drain_ends_before_its_pod_is_killed() -> None:
    (settings,) = [each["data"] for each in manifests() if each["kind"] == "ConfigMap"]
    drain = duration(settings["ROWLOCK_SHUTDOWN_AFTER"])
    (worker,) = [pod["spec"] for each, pod in pod_templates() if named(each) == "Deployment/worker-default"]
    assert timedelta(seconds=worker["terminationGracePeriodSeconds"]) >= drain + timedelta(seconds=20)
    (container,) = worker["containers"]
    assert {container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness")} == {"/healthz"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_each_compose_file_fits_the_specification(file: Path) -> None:
    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text())
    jsonschema.validate(yaml.load(file.read_text(), Compose), schema)  # noqa: S506 - a safe loader, and our own file


def test_each_variant_changes_services_that_are_there_and_each_service_has_an_image() -> None:
    files = {file.name: yaml.load(file.read_text(), Compose)["services"] for file in COMPOSE}  # noqa: S506 - as above
    base = files.pop("compose.yaml")
    assert files.keys() == {"compose.dev.yaml", "compose.test.yaml", "compose.prod.yaml"}
    assert [name for name, service in base.items() if "image" not in service] == []
    for variant, services in files.items():
        new = services.keys() - base.keys()
        assert [name for name in new if "image" not in services[name]] == [], variant
    for service in base.values():
        for name, condition in service.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy":
                assert "healthcheck" in base[name]
    grace = int(base["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace >= Settings().shutdown_after.total_seconds() + 10


def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(ROOT / ".venv" / "bin"))) or shutil.which("hadolint")
    assert hadolint is not None
    found = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_systemd_waits_longer_than_a_drain_and_kills_later_than_a_worker_replaces_itself() -> None:
    worker = unit(DEPLOY / "systemd" / "rowlock-worker@.service")["Service"]
    assert (worker["Type"], worker["TimeoutStartSec"]) == ("notify", "infinity")
    assert timedelta(seconds=int(worker["WatchdogSec"])) > HUNG_AFTER
    assert timedelta(seconds=int(worker["TimeoutStopSec"])) >= Settings().shutdown_after + timedelta(seconds=15)


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_itself_accepts_each_unit(file: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    # The program and user of the unit are not on this machine.
    text = re.sub(r"/srv/shop/.venv/bin/rowlock", "/bin/true", file.read_text())
    copy = tmp_path / file.name.replace("@", "@default")
    copy.write_text(re.sub(r"^User=.*\n", "", text, flags=re.MULTILINE))
    said = subprocess.run([verify, "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    assert [line for line in said.stderr.splitlines() if file.name.partition("@")[0].partition(".")[0] in line] == []
