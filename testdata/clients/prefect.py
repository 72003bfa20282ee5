"""Replays Prefect's Kubernetes worker.

Source: PrefectHQ/prefect, src/integrations/prefect-kubernetes/prefect_kubernetes: worker.py, observer.py.
Calls: the cluster's name is the uid of kube-system. A Job with a generated name is created, whose pod template has fields of
  a Job in it by mistake of its default manifest; its pod is watched until it is not Pending, then the Job is watched to its
  end; its log is followed. When it never starts, the events of the whole namespace are listed, and sorted by their times. A
  flow that is cancelled is deleted in the foreground.
Expects: fields that nothing knows are warned of, not refused; each event has a time; a Job that is at its end has
  completionTime.
"""
from kubernetes import watch

from replay import *

same("the cluster has an identity", bool(core.read_namespace("kube-system").metadata.uid), True)
flow = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "generateName": "calm-otter-",
        "labels": {"prefect.io/flow-run-id": "1", "app.kubernetes.io/created-by": "prefect"},
    },
    "spec": {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": 300,
        "template": {
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "prefect-job",
                        "image": "busybox:1.36",
                        "imagePullPolicy": "IfNotPresent",
                        "env": [{"name": "PREFECT__FLOW_RUN_ID", "value": "1"}],
                        "args": ["sh", "-c", "echo flow $PREFECT__FLOW_RUN_ID"],
                    }
                ],
            }
        },
    },
}
name = batch.create_namespaced_job(namespace, flow).metadata.name
same("the generated name", name.startswith("calm-otter-"), True)
for event in watch.Watch().stream(
    core.list_namespaced_pod, namespace, label_selector=f"job-name={name}", timeout_seconds=watch_deadline
):
    if event["object"].status.phase != "Pending":
        run = event["object"].metadata.name
        break
log = core.read_namespaced_pod_log(run, namespace, container="prefect-job", follow=True, _preload_content=False)
same("the log", b"".join(log.stream()), b"flow 1\n")
for event in watch.Watch().stream(
    batch.list_namespaced_job, namespace, field_selector=f"metadata.name={name}", timeout_seconds=watch_deadline
):
    if event["object"].status.completion_time:
        break
same("pods that succeeded", event["object"].status.succeeded, 1)
same("its first container's exit code", states(run)["prefect-job"].terminated.exit_code, 0)
events = sorted(core.list_namespaced_event(namespace).items, key=lambda e: e.event_time or e.last_timestamp)
of = [
    e
    for e in events
    if (e.involved_object.api_version, e.involved_object.kind, e.involved_object.name) == ("batch/v1", "Job", name)
]
same("events of the Job", [e.reason for e in of], ["SuccessfulCreate", "Completed"])
batch.delete_namespaced_job(name, namespace, propagation_policy="Foreground", grace_period_seconds=30)
gone("the flow", lambda: batch.read_namespaced_job(name, namespace))
gone("its pod", lambda: pod(run))
