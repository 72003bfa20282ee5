"""Replays Dagster's k8s_job_executor and K8sRunLauncher.

Source: dagster-io/dagster, python_modules/libraries/dagster-k8s/dagster_k8s: job.py, client.py, executor.py, launcher.py.
Calls: a Job with Dagster's labels, an imagePullSecret and sources of environment that may be missing is created; it is found
  by a list with its name as the field, then its status is read until it counts as done; the pods are listed by their label,
  their containers' states, their logs' last 25 lines and events read. A run that is terminated has its Job and then each of
  its pods deleted.
Expects: a Job that failed has failed > 0 and no active pods; the pod of a failed step and its log stay; a missing Secret for
  pulling does not hold up an image that is here; a Job deleted without a propagation policy leaves its pods, as in a cluster.
"""
from replay import *


def launch(name, command):
    labels = {
        "dagster/job": "j",
        "dagster/op": "o",
        "app.kubernetes.io/name": "dagster",
        "app.kubernetes.io/instance": "dagster",
        "app.kubernetes.io/part-of": "dagster",
        "app.kubernetes.io/component": "step_worker",
        "app.kubernetes.io/version": "1.9.0",
    }
    container = {
        "name": "dagster",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "envFrom": [{"configMapRef": {"name": "none", "optional": True}}, {"secretRef": {"name": "none", "optional": True}}],
        "volumeMounts": [{"name": "trust", "mountPath": "/trust"}],
    }
    batch.create_namespaced_job(
        namespace,
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": 86400,
                "template": {
                    "metadata": {"name": name, "labels": labels},
                    "spec": {
                        "automountServiceAccountToken": True,
                        "serviceAccountName": "default",
                        "restartPolicy": "Never",
                        "imagePullSecrets": [{"name": "none"}],
                        "volumes": [{"name": "trust", "configMap": {"name": "kube-root-ca.crt"}}],
                        "containers": [container],
                    },
                },
            },
        },
    )
    until("the list has the Job", lambda: batch.list_namespaced_job(namespace, field_selector=f"metadata.name={name}").items)
    return until("the Job has a pod", lambda: core.list_namespaced_pod(namespace, label_selector=f"job-name={name}").items)[
        0
    ].metadata.name


def status(name):
    return batch.read_namespaced_job_status(name, namespace).status


run = launch("dagster-step-1", "ls /trust")
until("the step succeeds", lambda: status("dagster-step-1").succeeded == 1)
same("its log", core.read_namespaced_pod_log(run, namespace, container="dagster", tail_lines=25), "ca.crt\n")

run = launch("dagster-step-2", "echo why; exit 4")
until("the step fails", lambda: status("dagster-step-2").failed)
same("active pods", status("dagster-step-2").active or 0, 0)
same("the exit code", states(run)["dagster"].terminated.exit_code, 4)
same("its log", core.read_namespaced_pod_log(run, namespace, container="dagster", tail_lines=25), "why\n")
same(
    "there are events of the pod",
    bool(core.list_namespaced_event(namespace, field_selector=f"involvedObject.name={run}").items),
    True,
)

run = launch("dagster-run-3", "trap 'exit 143' TERM; while :; do sleep 0.1; done")
until("the run runs", lambda: pod(run).status.phase == "Running")
batch.delete_namespaced_job("dagster-run-3", namespace)
gone("the run", lambda: batch.read_namespaced_job("dagster-run-3", namespace))
core.delete_namespaced_pod(run, namespace)
gone("its pod", lambda: pod(run))
