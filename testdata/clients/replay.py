"""What the replays share: python3-kubernetes' clients, a namespace to work in, checks that say what was there instead."""
import sys
import time

from kubernetes import client, config
from kubernetes.stream import stream

config.load_kube_config()
namespace = sys.argv[1]
core, batch, rbac, custom = client.CoreV1Api(), client.BatchV1Api(), client.RbacAuthorizationV1Api(), client.CustomObjectsApi()
ApiException, watch_deadline = client.ApiException, 240


def until(what, probe):
    """Asks until the answer is true, and returns it."""
    end = time.monotonic() + watch_deadline
    while not (answer := probe()):
        if time.monotonic() > end:
            sys.exit(f"not within {watch_deadline} seconds: {what}")
        time.sleep(0.1)
    return answer


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, want {want!r}")


def refused(what, status, call):
    """Makes a call that must be refused, and returns the message."""
    try:
        call()
    except ApiException as e:
        same(what, e.status, status)
        return str(e.body)
    sys.exit(f"{what}: it was taken")


def pod(name):
    return core.read_namespaced_pod(name, namespace)


def states(name):
    """The states of a pod's containers by their names."""
    return {c.name: c.state for c in pod(name).status.container_statuses or []}


def execute(name, container, command, **options):
    """Opens an exec that a client feeds and reads by itself."""
    options = dict(dict(stdin=False, stdout=True, stderr=True, tty=False), **options)
    return stream(
        core.connect_get_namespaced_pod_exec,
        name,
        namespace,
        container=container,
        command=command,
        _preload_content=False,
        **options,
    )


def gone(what, read):
    def probe():
        try:
            read()
        except ApiException as e:
            return e.status == 404

    until(what + " is gone", probe)
