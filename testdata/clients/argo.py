"""Replays what an Argo Workflows controller does with the pods of a step. Argo itself needs its own kinds, which jobd does not
  have.

Source: argoproj/argo-workflows, workflow/controller/workflowpod.go, workflow/controller/pod/controller.go, workflow/signal,
  workflow/executor/emissary.
Calls: a Workflow is created, which is refused. A pod has an init container that puts the executor into a shared volume, a
  wait container, and the main container under the executor; labels say that it is not completed, a finalizer holds it until
  its result is read. Pods are watched by labels. A sidecar is ended by an exec of kill. The wait container writes to its own
  pod's annotations; the finalizer is removed by a patch, the pod labelled as completed and deleted.
Expects: a 404 of the kinds that are missing; containers of a pod share files while they run; a pod with a finalizer stays,
  with a deletionTimestamp, until a patch takes it away; activeDeadlineSeconds of a pod may be made shorter while it runs.
"""
from kubernetes import watch

from replay import *

refused(
    "a Workflow",
    404,
    lambda: custom.create_namespaced_custom_object(
        "argoproj.io",
        "v1alpha1",
        namespace,
        "workflows",
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "x-"}, "spec": {}},
    ),
)
refused(
    "the list of Workflows",
    404,
    lambda: custom.list_namespaced_custom_object("argoproj.io", "v1alpha1", namespace, "workflows"),
)

shared = [{"name": "var-run-argo", "mountPath": "/var/run/argo"}]
emissary = """#!/bin/sh
shift 2
"$@" >/var/run/argo/stdout 2>&1
echo $? >/var/run/argo/exitcode.part && mv /var/run/argo/exitcode.part /var/run/argo/exitcode
"""
wait = "until [ -e /var/run/argo/exitcode ]; do sleep 0.1; done; cat /var/run/argo/stdout"
finalizer = "workflows.argoproj.io/status"
core.create_namespaced_pod(
    namespace,
    {
        "metadata": {
            "name": "steps-1",
            "labels": {"workflows.argoproj.io/workflow": "steps", "workflows.argoproj.io/completed": "false"},
            "finalizers": [finalizer],
            "annotations": {"workflows.argoproj.io/node-name": "steps.one", "workflows.argoproj.io/template": "{}"},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 3600,
            "volumes": [{"name": "var-run-argo", "emptyDir": {}}],
            "initContainers": [
                {
                    "name": "init",
                    "image": "busybox:1.36",
                    "volumeMounts": shared,
                    "env": [{"name": "EMISSARY", "value": emissary}],
                    "command": ["sh", "-c", 'printf %s "$EMISSARY" >/var/run/argo/argoexec; chmod 755 /var/run/argo/argoexec'],
                }
            ],
            "containers": [
                {
                    "name": "wait",
                    "image": "busybox:1.36",
                    "volumeMounts": shared,
                    "command": ["sh", "-c", wait],
                    "env": [
                        {"name": "ARGO_POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
                    ],
                },
                {
                    "name": "main",
                    "image": "busybox:1.36",
                    "volumeMounts": shared,
                    "command": ["/var/run/argo/argoexec", "emissary", "--", "echo", "from the step"],
                },
                {
                    "name": "sidecar",
                    "image": "busybox:1.36",
                    "volumeMounts": shared,
                    "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
                },
            ],
        },
    },
)
core.patch_namespaced_pod("steps-1", namespace, {"spec": {"activeDeadlineSeconds": 600}})

for event in watch.Watch().stream(
    core.list_namespaced_pod,
    namespace,
    label_selector="workflows.argoproj.io/workflow=steps,workflows.argoproj.io/completed=false",
    timeout_seconds=watch_deadline,
):
    ended = {c.name for c in event["object"].status.container_statuses or [] if c.state.terminated}
    if ended >= {"wait", "main"}:
        break
same(
    "the output of the step, by way of the wait container",
    core.read_namespaced_pod_log("steps-1", namespace, container="wait"),
    "from the step\n",
)
execute("steps-1", "sidecar", ["/bin/sh", "-c", "kill -15 1"]).run_forever(timeout=watch_deadline)
until("the pod succeeds", lambda: pod("steps-1").status.phase == "Succeeded")
core.patch_namespaced_pod(
    "steps-1", namespace, {"metadata": {"annotations": {"workflows.argoproj.io/outputs": '{"exitCode": "0"}'}}}
)
core.delete_namespaced_pod("steps-1", namespace)
same("it is being deleted", pod("steps-1").metadata.deletion_timestamp is not None, True)
core.patch_namespaced_pod(
    "steps-1",
    namespace,
    [
        {"op": "replace", "path": "/metadata/labels/workflows.argoproj.io~1completed", "value": "true"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ],
)
gone("the pod", lambda: pod("steps-1"))
