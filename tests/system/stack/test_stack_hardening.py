"""What the engine knows of the containers: as whom they run, what they may, what they show."""

import json
import os
import subprocess

import pytest

from compose_stack import inspect

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

SERVICES = ("gateway", "store", "embedder", "redis")
OURS = ("gateway", "store", "embedder")
ALLOWED_MEMORY = 700 * 2**20
MB = 10**6
LARGEST = {"gateway": 250 * MB, "store": 250 * MB, "embedder": 450 * MB}
OFFICIAL_BASE = 130 * MB
"""What the published image of Python takes; another in its place may be of any size."""
COMPILERS = ("cc", "gcc", "g++", "clang", "make", "ld", "rustc")


@pytest.fixture(params=SERVICES)
def service(request):
    return request.param


@pytest.fixture
def container(lean, service):
    return lean.inspect(service)


def run(*arguments):
    return subprocess.run(
        ["docker", "run", "--rm", "--network", "none", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def added_to_base(image):
    """The bytes of our own layers, which begin where the environment's folder enters the path."""
    form = "{{.Size}}\t{{.CreatedBy}}"
    command = ["docker", "history", "--no-trunc", "--human=false", "--format", form, image]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    layers = [line.split("\t", 1) for line in done.stdout.splitlines()]
    first = next(n for n, (_, made_by) in enumerate(layers) if "ENV PATH=/opt/memory" in made_by)
    return sum(int(size) for size, _ in layers[:first])


def test_a_container_has_no_more_rights_than_it_needs(container):
    host = container["HostConfig"]
    assert container["Config"]["User"] == "10001:10001"
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert 0 < host["PidsLimit"] <= 512


def test_a_container_comes_back_and_its_log_does_not_grow_for_ever(container):
    host = container["HostConfig"]
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert set(host["LogConfig"]["Config"]) == {"max-size", "max-file"}
    assert container["State"]["Health"]["Status"] == "healthy"


def test_a_process_is_nobody_and_writes_nowhere(lean, service):
    assert lean.run_in(service, "id", "-u").stdout.strip() == "10001"
    assert lean.run_in(service, "touch", "/written").returncode != 0
    assert lean.run_in(service, "touch", "/tmp/written").returncode == 0


def test_no_secret_is_shown_by_the_engine(lean, service):
    shown = json.dumps(lean.inspect(service)) + lean.compose("top", service)
    secrets = [file.read_text() for file in lean.secrets.iterdir() if file.stat().st_size]
    assert len(secrets) == 5
    assert [secret for secret in secrets if secret in shown] == []


def test_the_secrets_lie_where_only_their_owner_gets(lean):
    assert lean.secrets.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in lean.secrets.iterdir()} == {0o444}


def test_the_memory_of_all_is_bounded_by_what_a_small_machine_has(lean):
    limits = [lean.inspect(service)["HostConfig"]["Memory"] for service in SERVICES]
    assert all(limits)
    assert sum(limits) <= ALLOWED_MEMORY


def test_only_the_gateway_is_reached_and_only_from_this_machine(lean):
    published = {
        service: [
            place["HostIp"]
            for places in lean.inspect(service)["NetworkSettings"]["Ports"].values()
            for place in places or ()
        ]
        for service in SERVICES
    }
    assert published == {"gateway": ["127.0.0.1"], "store": [], "embedder": [], "redis": []}


def test_what_is_inside_has_no_way_out(lean):
    inside, door = (f"{lean.project}_{name}" for name in ("inside", "door"))
    assert inspect(inside)["Internal"]
    assert inspect(door)["Options"]["com.docker.network.bridge.enable_ip_masquerade"] == "false"
    for service in SERVICES:
        networks = set(lean.inspect(service)["NetworkSettings"]["Networks"])
        assert networks == ({inside, door} if service == "gateway" else {inside})


def test_redis_answers_nobody_without_the_password(lean):
    assert "NOAUTH" in lean.run_in("redis", "redis-cli", "ping").stdout


def test_every_service_ends_well_when_it_is_told_to(lean):
    lean.compose("stop")
    codes = {service: lean.inspect(service)["State"]["ExitCode"] for service in SERVICES}
    lean.wait_until_healthy()
    assert codes == dict.fromkeys(SERVICES, 0)


@pytest.mark.parametrize("service", OURS)
def test_an_image_is_small_says_what_it_is_and_compiles_nothing(lean, service):
    image = inspect(lean.inspect(service)["Image"])
    assert added_to_base(image["Id"]) + OFFICIAL_BASE <= LARGEST[service]
    labels = image["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == f"memory-bridge-{service}"
    assert labels["org.opencontainers.image.version"]
    assert image["Config"]["StopSignal"] == "SIGTERM"
    command = "; ".join(f"command -v {program}" for program in COMPILERS)
    assert run(image["Id"], "sh", "-c", command).stdout == ""


def test_the_model_is_in_the_image_of_the_embedder(lean):
    verify = (
        "from memory_embedder import models, settings;"
        "models.find(models.DEFAULT_MODEL, settings.read().model_folders).verify()"
    )
    done = run(lean.inspect("embedder")["Image"], "python", "-c", verify)
    assert done.returncode == 0, done.stderr


OPEN = (
    "from memory_store.opening import open_store; from memory_store.settings import *;"
    "open_store(read(StoreSettings)).close()"
)


@pytest.fixture
def opened_in(lean, tmp_path):
    """Opens the store in a folder of this machine after giving that to a user."""
    image = lean.inspect("store")["Image"]
    mount = ("--mount", f"type=bind,source={tmp_path},target=/data")

    def give(user):
        done = run(*mount, "--user", "0", image, "chown", "-R", str(user), "/data")
        assert done.returncode == 0, done.stderr

    def opening(user, *command):
        give(user)
        return run(*mount, "--env", "MCP_STORE_SECRET=sixteen letters and more", image, *command)

    yield opening
    give(os.geteuid())


def test_a_folder_of_another_user_is_refused_with_what_to_do(opened_in):
    done = opened_in(54321)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "the database cannot be opened: /data, which belongs to user 54321, may not be written to"
        " by user 10001, as whom this runs; change its owner (chown -R 10001) or mode"
    )


def test_a_folder_of_the_stores_own_user_is_taken(opened_in, tmp_path):
    done = opened_in(10001, "python", "-c", OPEN)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "memory.db").stat().st_uid == 10001
