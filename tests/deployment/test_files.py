"""The deployment files fit together: commands, settings, variables, volumes, secrets and ports."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml

from ptc._cli._group import _ptc as COMMAND_LINE
from ptc._config._keys import KEYS
from ptc._config._settings import load_settings

from .conftest import DEPLOYMENT, REPOSITORY, USER

KUBERNETES = sorted((DEPLOYMENT / "kubernetes").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOYMENT / "compose.yaml").read_text())
DOCUMENTS = [document for path in KUBERNETES for document in yaml.safe_load_all(path.read_text())]
KUSTOMIZATION = yaml.safe_load((DEPLOYMENT / "kustomization.yaml").read_text())
DOCKERFILE = (DEPLOYMENT / "Dockerfile").read_text()
OUR_IMAGE = "ptc-worker:0.1.0"
FROM_COMMANDS = {"ptc-seccomp"}
"""Objects that the comments of the files create, checked below."""


def find(kind: str, name: str = "") -> dict[str, Any]:
    (found,) = [
        each
        for each in DOCUMENTS
        if each["kind"] == kind and name in ("", each["metadata"]["name"])
    ]
    return dict(found)


def pod_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in DOCUMENTS:
        spec = document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            yield document["metadata"]["name"], spec["template"]["spec"]


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, pod in pod_specs():
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            yield f"{name}/{container['name']}", pod, container


def our_containers() -> list[tuple[str, list[str], set[str]]]:
    """List name, arguments and variables of each container with the image of ptc."""
    found = [
        (name, list(each["args"]), {variable["name"] for variable in each["env"]})
        for name, _, each in containers()
        if each["image"] == OUR_IMAGE
    ]
    for name, service in COMPOSE["services"].items():
        if service["image"] == OUR_IMAGE:
            found.append((name, list(service["command"]), set(service["environment"])))
    command = re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert command is not None
    found.append(("Dockerfile", yaml.safe_load(command[1]), {"PTC_JOURNAL"}))
    return found


def parse(arguments: list[str]) -> dict[str, Any]:
    """Parse a command line with the parser of the command, which executes nothing."""
    name, *rest = arguments
    command = COMMAND_LINE.get_command(click.Context(COMMAND_LINE), name)
    assert command is not None, name
    return dict(command.make_context(name, rest).params)


def environment_variables() -> set[str]:
    return {key.variable for key in KEYS.values()} | {"PTC_CONFIG", "PTC_NO_CONFIG"}


@pytest.mark.parametrize(("name", "arguments", "variables"), our_containers())
def test_command_and_variables_are_those_of_ptc(
    name: str, arguments: list[str], variables: set[str]
) -> None:
    parameters = parse(arguments)
    assert parameters["config"] == "/etc/ptc/ptc.toml"
    assert variables == {"PTC_JOURNAL"}
    assert variables <= environment_variables()


def test_commands_in_the_comments_are_those_of_ptc() -> None:
    for path in (*DEPLOYMENT.glob("*.py"), REPOSITORY / "docs" / "deployment.md"):
        for line in re.findall(r"^\s*(ptc [a-z].*)$", path.read_text(), re.MULTILINE):
            parse(shlex.split(line, comments=True)[1:])


def test_settings_are_accepted_by_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment_variables():
        monkeypatch.delenv(name, raising=False)
    settings = load_settings({}, config=str(DEPLOYMENT / "ptc.toml"))
    assert settings["allow"] == ["word_count"]
    assert settings["ceiling.timeout_ms"] == 120_000
    written = tomllib.loads((DEPLOYMENT / "ptc.toml").read_text())
    assert (DEPLOYMENT / written["tools"][0]).is_file()


def test_longest_run_ends_before_the_drain_and_the_drain_before_the_kill() -> None:
    ceiling = tomllib.loads((DEPLOYMENT / "ptc.toml").read_text())["ceiling"]
    longest = ceiling["timeout_ms"] / 1000
    pod = find("Deployment")["spec"]["template"]["spec"]
    drain = parse(pod["containers"][0]["args"])["drain_seconds"]
    assert longest < drain < pod["terminationGracePeriodSeconds"]
    service = COMPOSE["services"]["worker"]
    drain = parse(service["command"])["drain_seconds"]
    assert longest < drain < int(service["stop_grace_period"].removesuffix("s"))


def test_memory_of_all_slots_fits_into_the_container() -> None:
    ceiling = tomllib.loads((DEPLOYMENT / "ptc.toml").read_text())["ceiling"]
    container = find("Deployment")["spec"]["template"]["spec"]["containers"][0]
    for arguments, limit in (
        (container["args"], container["resources"]["limits"]["memory"]),
        (
            COMPOSE["services"]["worker"]["command"],
            COMPOSE["services"]["worker"]["deploy"]["resources"]["limits"]["memory"],
        ),
    ):
        most = int(re.sub(r"Gi?$", "", limit)) << 30
        assert parse(arguments)["slots"] * ceiling["max_memory_bytes"] + (512 << 20) <= most


def test_references_of_kubernetes_resolve() -> None:
    generated = {each["name"] for each in KUSTOMIZATION["configMapGenerator"]} | FROM_COMMANDS
    comments = "".join(path.read_text() for path in KUBERNETES)
    accounts = {each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == "ServiceAccount"}
    for name, pod, container in containers():
        assert pod.get("serviceAccountName", "default") in accounts | {"default"}, name
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for mount in container.get("volumeMounts", ()):
            assert mount["name"] in volumes, name
        for volume in volumes.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] in generated
        for variable in container.get("env", ()):
            reference = variable["valueFrom"]["secretKeyRef"]
            assert f"create secret generic {reference['name']}" in comments
            assert f"--from-literal={reference['key']}=" in comments
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports
                assert container[probe]["httpGet"]["path"] in ("/live", "/ready")
    for name in FROM_COMMANDS:
        assert f"create configmap {name}" in comments


def test_kustomization_names_existing_files() -> None:
    for resource in KUSTOMIZATION["resources"]:
        assert (DEPLOYMENT / resource).is_file()
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert all((DEPLOYMENT / file).is_file() for file in generator["files"])
    # One of two autoscalers is applied, and node-profile.yaml has a namespace of its own.
    names = {f"kubernetes/{path.name}" for path in KUBERNETES}
    assert names - set(KUSTOMIZATION["resources"]) == {
        "kubernetes/autoscale-hpa.yaml",
        "kubernetes/autoscale-keda.yaml",
        "kubernetes/node-profile.yaml",
    }


def test_selectors_select_the_workers() -> None:
    labels = find("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert find("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert find("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        assert find(kind)["spec"]["scaleTargetRef"]["name"] == "ptc-worker"
    (metric,) = find("HorizontalPodAutoscaler")["spec"]["metrics"]
    slots = parse(find("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"])["slots"]
    assert metric["external"]["target"]["averageValue"] == str(slots)
    (trigger,) = find("ScaledObject")["spec"]["triggers"]
    assert trigger["metadata"]["targetQueryValue"] == str(slots)


def test_health_port_is_the_same_everywhere() -> None:
    container = find("Deployment")["spec"]["template"]["spec"]["containers"][0]
    parameters = parse(container["args"])
    assert parameters["health_port"] == container["ports"][0]["containerPort"]
    assert parameters["health_address"] == "0.0.0.0"  # noqa: S104  # of the pod
    (rule,) = find("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [container["ports"][0]["name"]]
    service = COMPOSE["services"]["worker"]
    port = parse(service["command"])["health_port"]
    assert f"http://127.0.0.1:{port}/ready" in service["healthcheck"]["test"][-1]


@pytest.mark.parametrize(
    "name", ["ptc-worker/worker", "ptc-forget/forget", "ptc-seccomp/wait", "ptc-seccomp/install"]
)
def test_container_of_kubernetes_has_no_privilege(name: str) -> None:
    ((_, pod, container),) = [each for each in containers() if each[0] == name]
    context = {**pod.get("securityContext", {}), **container["securityContext"]}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"]["type"] in ("Localhost", "RuntimeDefault")
    if name != "ptc-seccomp/install":
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(pod)


def test_user_of_the_image_is_that_of_the_manifests() -> None:
    assert f"--uid {USER} " in DOCKERFILE
    assert f"USER {USER}:{USER}\n" in DOCKERFILE
    assert find("Deployment")["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == USER
    assert COMPOSE["services"]["worker"]["user"] == f"{USER}:{USER}"


def test_profile_of_the_pods_is_the_one_that_is_put_on_nodes() -> None:
    profile = find("Deployment")["spec"]["template"]["spec"]["securityContext"]["seccompProfile"]
    folder, _, file = profile["localhostProfile"].partition("/")
    daemon = find("DaemonSet")["spec"]["template"]["spec"]
    host = next(each["hostPath"]["path"] for each in daemon["volumes"] if "hostPath" in each)
    assert host == f"/var/lib/kubelet/seccomp/{folder}"
    assert daemon["initContainers"][0]["command"][-1] == f"/node/{file}"
    text = (DEPLOYMENT / "kubernetes" / "node-profile.yaml").read_text()
    assert f"--from-file={file}=samples/deployment/seccomp.json" in text
    options = COMPOSE["services"]["worker"]["security_opt"]
    assert (DEPLOYMENT / options[1].partition("=")[2]).is_file()


def test_references_of_compose_resolve() -> None:
    for name, service in COMPOSE["services"].items():
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOYMENT / source).is_file()
            else:
                assert source in COMPOSE["volumes"]
        if "build" in service:
            context = (DEPLOYMENT / service["build"]["context"]).resolve()
            assert context == REPOSITORY
            assert (context / service["build"]["dockerfile"]).is_file()
    # The address names the service, its user and its database.
    postgres = COMPOSE["services"]["postgres"]["environment"]
    address = COMPOSE["services"]["worker"]["environment"]["PTC_JOURNAL"]
    assert address.startswith(f"postgresql://{postgres['POSTGRES_USER']}:")
    assert address.endswith(f"@postgres:5432/{postgres['POSTGRES_DB']}")


def test_dockerfile_copies_what_the_context_has() -> None:
    ignored = (DEPLOYMENT / "Dockerfile.dockerignore").read_text().splitlines()
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
        if not source.startswith("--")
    ]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists()
        assert f"!{source}" in ignored
