"""Replays the Airflow provider for Kubernetes: KubernetesPodOperator with do_xcom_push, KubernetesExecutor,
  KubernetesJobOperator.

Source: apache/airflow, providers/cncf/kubernetes/src/airflow/providers/cncf/kubernetes: utils/pod_manager.py,
  operators/pod.py, operators/job.py, executors/kubernetes_executor.py and kubernetes_executor_utils.py.
Calls: pods are searched by labels with != and !key, created, read once a second, their events listed by the name of the pod
  and from a resourceVersion; the executor watches from resourceVersion 0. Logs are followed with time stamps. The sidecar's
  result is read by an exec that runs to its end, and the sidecar is ended by a command written to a shell. Labels are
  patched, pods and collections deleted, a suspended Job is created, resumed and deleted.
Expects: a sidecar that runs on after the main container has ended; a shell whose client sees it end with its container; the
  executor's watch to see Pending, Running, Succeeded and DELETED.
"""
import json
import threading

from kubernetes import watch

from replay import *

labels = {
    "dag_id": "d",
    "task_id": "t",
    "run_id": "r1",
    "kubernetes_pod_operator": "True",
    "try_number": "1",
    "airflow_kpo_in_cluster": "False",
    "airflow_version": "3.0.0",
}
xcom = [{"name": "xcom", "mountPath": "/airflow/xcom"}]
script = """for i in 1 2 3; do echo line $i; sleep 0.2; done; echo '{"k": 7}' >/airflow/xcom/return.json"""
task = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "kpo-abc", "labels": labels, "annotations": {"dag_id": "d"}},
    "spec": {
        "restartPolicy": "Never",
        "affinity": {},
        "nodeSelector": {},
        "tolerations": [],
        "hostNetwork": False,
        "securityContext": {},
        "initContainers": [{"name": "init", "image": "busybox:1.36", "command": ["echo", "prepared"]}],
        "containers": [
            {
                "name": "base",
                "image": "busybox:1.36",
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script],
                "env": [],
                "envFrom": [],
                "volumeMounts": xcom,
                "terminationMessagePolicy": "File",
            },
            {
                "name": "airflow-xcom-sidecar",
                "image": "busybox:1.36",
                "volumeMounts": xcom,
                "command": ["sh", "-c", 'trap "exit 0" INT; while true; do sleep 1; done;'],
                "resources": {"requests": {"cpu": "1m", "memory": "10Mi"}},
            },
        ],
        "volumes": [{"name": "xcom", "emptyDir": {}}],
    },
}

found = core.list_namespaced_pod(
    namespace, label_selector=",".join(f"{k}={v}" for k, v in labels.items()) + ",already_checked!=True,!airflow-sa"
)
same("pods of an earlier try", found.items, [])

seen = []


def executor():
    for event in watch.Watch().stream(
        core.list_namespaced_pod, namespace, label_selector="dag_id=d", resource_version="0", timeout_seconds=watch_deadline
    ):
        seen.append(event["type"] if event["type"] == "DELETED" else event["object"].status.phase)
        if event["type"] == "DELETED":
            return


watcher = threading.Thread(target=executor, daemon=True)
watcher.start()
core.create_namespaced_pod(namespace, task)

events, version = {}, None


def started():
    global version
    page = core.list_namespaced_event(
        namespace,
        field_selector="involvedObject.name=kpo-abc",
        resource_version=version,
        resource_version_match="NotOlderThan" if version else None,
    )
    events.update({e.metadata.uid: e.reason for e in page.items})
    version = page.metadata.resource_version
    return pod("kpo-abc").status.phase != "Pending"


until("the pod starts", started)
log = core.read_namespaced_pod_log("kpo-abc", namespace, container="base", follow=True, timestamps=True, _preload_content=False)
lines = b"".join(log.stream(amt=None)).decode().splitlines()
same("the log, less the time of each line", [line.partition(" ")[2] for line in lines], ["line 1", "line 2", "line 3"])
same("the log of the init container", core.read_namespaced_pod_log("kpo-abc", namespace, container="init"), "prepared\n")
same(
    "the last line of the last minute",
    core.read_namespaced_pod_log("kpo-abc", namespace, container="base", since_seconds=60, tail_lines=1),
    "line 3\n",
)

until("the main container ends", lambda: states("kpo-abc")["base"].terminated)
same("the sidecar runs", states("kpo-abc")["airflow-xcom-sidecar"].running is not None, True)
reads = execute(
    "kpo-abc",
    "airflow-xcom-sidecar",
    ["/bin/sh", "-c", "if [ -s /airflow/xcom/return.json ]; then cat /airflow/xcom/return.json; fi"],
)
reads.run_forever()
same("the result", json.loads(reads.read_all()), {"k": 7})
reads.close()
ends = execute("kpo-abc", "airflow-xcom-sidecar", ["/bin/sh"], stdin=True)
ends.write_stdin("kill -2 1\n")


def closed():
    ends.update(timeout=1)
    return not ends.is_open()


until("the shell ends with its container", closed)
until("the pod succeeds", lambda: pod("kpo-abc").status.phase == "Succeeded")
same("the sidecar's exit code", states("kpo-abc")["airflow-xcom-sidecar"].terminated.exit_code, 0)
started()
for reason in ("Scheduled", "Started"):
    same(f"there is an event {reason}", reason in events.values(), True)

core.patch_namespaced_pod("kpo-abc", namespace, {"metadata": {"labels": {"already_checked": "True"}}})
core.patch_namespaced_pod(
    "kpo-abc", namespace, [{"op": "add", "path": "/metadata/labels/airflow_executor_done", "value": "True"}]
)
done = core.list_namespaced_pod(
    namespace, field_selector="status.phase=Succeeded", label_selector="airflow_executor_done=True,airflow-worker!=1"
)
same("pods that are done", [p.metadata.name for p in done.items], ["kpo-abc"])
core.delete_namespaced_pod("kpo-abc", namespace, body=client.V1DeleteOptions(), grace_period_seconds=0)
watcher.join(watch_deadline)
same("what the executor sees", sorted(set(seen)), ["DELETED", "Pending", "Running", "Succeeded"])
same("the last that it sees", seen[-1], "DELETED")
core.delete_collection_namespaced_pod(namespace, label_selector="dag_id=d", propagation_policy="Foreground")

container = {"name": "base", "image": "busybox:1.36", "command": ["true"]}
batch.create_namespaced_job(
    namespace,
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job-x"},
        "spec": {
            "suspend": True,
            "parallelism": 2,
            "completions": 2,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 100,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    },
)
batch.patch_namespaced_job("job-x", namespace, {"spec": {"suspend": False}})
until(
    "the Job completes",
    lambda: [c for c in batch.read_namespaced_job_status("job-x", namespace).status.conditions or [] if c.type == "Complete"],
)
same("its pods that succeeded", batch.read_namespaced_job_status("job-x", namespace).status.succeeded, 2)
batch.delete_namespaced_job("job-x", namespace, propagation_policy="Foreground")
gone("the Job", lambda: batch.read_namespaced_job("job-x", namespace))
