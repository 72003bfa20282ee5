"""Replays GitLab Runner's Kubernetes executor.

Source: gitlab.com/gitlab-org/gitlab-runner, executors/kubernetes: kubernetes.go, exec.go, log_processor.go, util.go.
Calls: SelfSubjectAccessReviews are asked first; a Secret for pulling and a ConfigMap with the scripts are created, then a pod
  of a build, a helper and a service container, whose owner they become by a patch; the pod is read until it runs. Each stage
  attaches to a container that waits in a shell, and writes a line to its input, while the log of the stage is followed in
  another container by exec. The pod is watched meanwhile, so that its end is noticed. At the end the pod is deleted with a
  grace, and all that it owns is gone.
Expects: attach reaches a shell that was there first, more than once; the watch tells of a pod deleted by somebody else;
  owners given later count.
"""
import threading

from kubernetes import client, watch
from kubernetes.stream import stream

from replay import *

access = client.AuthorizationV1Api()
for verb, resource, sub in (
    ("create", "pods", ""),
    ("get", "pods", "attach"),
    ("create", "pods", "exec"),
    ("get", "pods", "log"),
    ("create", "secrets", ""),
    ("create", "configmaps", ""),
):
    review = access.create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"namespace": namespace, "verb": verb, "resource": resource, "subresource": sub}}}
    )
    same(f"may {verb} {resource}/{sub}", review.status.allowed, True)

scripts = {
    "prepare": 'echo prepared >>"$1"\n',
    "build": 'echo built in $PWD by $CI_JOB_NAME >>"$1"; nc 127.0.0.1 7000 >>"$1"\n',
    "fail": 'echo broken >>"$1"; exit 7\n',
}
secret = core.create_namespaced_secret(
    namespace,
    {"metadata": {"generateName": "runner-x-project-1-"}, "type": "kubernetes.io/dockercfg", "data": {".dockercfg": "e30="}},
).metadata
config_map = core.create_namespaced_config_map(
    namespace, {"metadata": {"generateName": "runner-x-project-1-scripts-"}, "data": scripts}
).metadata
mounts = [
    {"name": "scripts", "mountPath": "/scripts-1-1"},
    {"name": "logs", "mountPath": "/logs-1-1"},
    {"name": "repo", "mountPath": "/builds"},
]
shell = [
    "sh",
    "-c",
    "if [ -x /usr/local/bin/bash ]; then exec /usr/local/bin/bash; elif [ -x /bin/sh ]; then exec /bin/sh; else exit 1; fi",
]
container = {
    "image": "busybox:1.36",
    "imagePullPolicy": "IfNotPresent",
    "command": shell,
    "stdin": True,
    "volumeMounts": mounts,
    "resources": {},
    "env": [{"name": "CI_JOB_NAME", "value": "unit"}],
    "securityContext": {"capabilities": {"drop": ["NET_RAW"]}},
}
made = core.create_namespaced_pod(
    namespace,
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "runner-x-project-1-concurrent-0-",
            "labels": {"job.runner.gitlab.com/pod": "runner-x", "project.runner.gitlab.com/id": "1"},
            "annotations": {"job.runner.gitlab.com/id": "1"},
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "default",
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": secret.name}],
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": 3600,
            "nodeSelector": {},
            "tolerations": [],
            "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["srv"]}],
            "initContainers": [
                dict(
                    container,
                    name="init-permissions",
                    command=["sh", "-c", "touch /logs-1-1/output.log && chmod 777 /logs-1-1/output.log"],
                    stdin=False,
                )
            ],
            "containers": [
                dict(container, name="build", workingDir="/builds"),
                dict(container, name="helper"),
                {
                    "name": "svc-0",
                    "image": "busybox:1.36",
                    "command": ["sh", "-c", "while :; do echo from the service | nc -l -p 7000; done"],
                    "resources": {},
                },
            ],
            "volumes": [
                {"name": "scripts", "configMap": {"name": config_map.name, "defaultMode": 0o777}},
                {"name": "logs", "emptyDir": {}},
                {"name": "repo", "emptyDir": {}},
            ],
        },
    },
).metadata
own = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": made.name, "uid": made.uid}]}}
core.patch_namespaced_secret(secret.name, namespace, own)
core.patch_namespaced_config_map(config_map.name, namespace, own)
until("the pod runs", lambda: pod(made.name).status.phase == "Running")

ended = threading.Event()


def watcher():
    for event in watch.Watch().stream(
        core.list_namespaced_pod, namespace, field_selector=f"metadata.name={made.name}", timeout_seconds=watch_deadline
    ):
        if event["type"] == "DELETED":
            ended.set()
            return


threading.Thread(target=watcher, daemon=True).start()
follows = execute(made.name, "helper", ["sh", "-c", "tail -n +1 -f /logs-1-1/output.log"])
read = ""


def stage(name, where, want):
    """Attaches to the shell of a container, has it run a script, and follows the log until the exit code is in it."""
    global read
    attached = stream(
        core.connect_get_namespaced_pod_attach,
        made.name,
        namespace,
        container=where,
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    attached.write_stdin(
        f"sh /scripts-1-1/{name} /logs-1-1/output.log; echo '{{\"command_exit_code\": '$?'}}' >>/logs-1-1/output.log\n"
    )

    def logged():
        global read
        follows.update(timeout=1)
        read += follows.read_stdout() if follows.peek_stdout() else ""
        return '{"command_exit_code": ' in read and read.endswith("}\n")

    until("the stage " + name, logged)
    same("the log of the stage " + name, read, want)
    read = ""
    attached.close()


stage("prepare", "helper", 'prepared\n{"command_exit_code": 0}\n')
stage("build", "build", 'built in /builds by unit\nfrom the service\n{"command_exit_code": 0}\n')
stage("fail", "build", 'broken\n{"command_exit_code": 7}\n')
same("the pod runs on", pod(made.name).status.phase, "Running")
core.delete_namespaced_pod(made.name, namespace, grace_period_seconds=0, propagation_policy="Background")
same("the watch sees the end", ended.wait(watch_deadline), True)
gone("the Secret", lambda: core.read_namespaced_secret(secret.name, namespace))
gone("the ConfigMap", lambda: core.read_namespaced_config_map(config_map.name, namespace))
