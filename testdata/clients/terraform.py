"""Replays terraform-provider-kubernetes, as OpenTofu and Terraform run it: create, refresh, change, destroy.

Source: hashicorp/terraform-provider-kubernetes, kubernetes/resource_kubernetes_job_v1.go, resource_kubernetes_service_v1.go,
  resource_kubernetes_persistent_volume_claim_v1.go, resource_kubernetes_pod_v1.go, resource_kubernetes_secret_v1.go,
  patch_operations.go.
Calls: every object is created with all its empty fields, read back (refresh), and compared with what was sent: a difference
  is a plan that is not empty. A change is a JSON patch of what has changed. A Job is read until it has a condition, a token's
  Secret until it has a token. Each deletion is followed by reads until there is a 404.
Expects: a target port that is "" is the port; what a client leaves empty is defaulted and never changes by itself; patches
  with add, replace and remove of maps; a claim that is used goes away after its pod.
"""
from replay import *

labels, meta = {"a": "b"}, lambda name: {
    "name": name,
    "namespace": namespace,
    "generateName": "",
    "labels": None,
    "annotations": None,
}
batch_job = {
    "metadata": meta("j"),
    "spec": {
        "activeDeadlineSeconds": None,
        "backoffLimit": 1,
        "completions": 2,
        "parallelism": 2,
        "manualSelector": None,
        "template": {
            "metadata": {"labels": None, "annotations": None},
            "spec": {
                "restartPolicy": "Never",
                "dnsPolicy": "ClusterFirst",
                "automountServiceAccountToken": True,
                "enableServiceLinks": True,
                "hostIPC": False,
                "hostNetwork": False,
                "hostPID": False,
                "shareProcessNamespace": False,
                "terminationGracePeriodSeconds": 30,
                "nodeName": "",
                "hostname": "",
                "priorityClassName": "",
                "schedulerName": "",
                "serviceAccountName": "",
                "subdomain": "",
                "containers": [
                    {
                        "name": "c",
                        "image": "busybox:1.36",
                        "command": ["sh", "-c", "cat /c/a /s/p; echo x >/d/x"],
                        "imagePullPolicy": "",
                        "workingDir": "",
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "",
                        "stdin": False,
                        "tty": False,
                        "resources": {},
                        "volumeMounts": [
                            {"name": n, "mountPath": "/" + n, "subPath": "", "mountPropagation": "None", "readOnly": False}
                            for n in "csd"
                        ],
                    }
                ],
                "volumes": [
                    {"name": "c", "configMap": {"name": "cm", "defaultMode": 420, "optional": None}},
                    {"name": "s", "secret": {"secretName": "s", "defaultMode": 420, "optional": None}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "pvc", "readOnly": False}},
                ],
            },
        },
    },
}
created = {
    "configmap": core.create_namespaced_config_map(
        namespace, {"metadata": meta("cm"), "data": {"a": "1"}, "binaryData": None, "immutable": False}
    ),
    "secret": core.create_namespaced_secret(
        namespace, {"metadata": meta("s"), "type": "", "stringData": {"p": "word"}, "immutable": False}
    ),
    "claim": core.create_namespaced_persistent_volume_claim(
        namespace,
        {
            "metadata": meta("pvc"),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Mi"}},
                "volumeName": "",
                "volumeMode": "Filesystem",
            },
        },
    ),
    "service": core.create_namespaced_service(
        namespace,
        {
            "metadata": meta("svc"),
            "spec": {
                "selector": labels,
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "externalName": "",
                "clusterIP": "",
                "ipFamilyPolicy": None,
                "ports": [{"port": 80, "targetPort": "", "protocol": "TCP", "name": "", "nodePort": 0, "appProtocol": None}],
            },
        },
    ),
    "account": core.create_namespaced_service_account(
        namespace, {"metadata": meta("sa"), "automountServiceAccountToken": True, "imagePullSecrets": None, "secrets": None}
    ),
    "role": rbac.create_namespaced_role(
        namespace,
        {
            "metadata": meta("r"),
            "rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": None, "verbs": ["get", "list"]}],
        },
    ),
    "quota": core.create_namespaced_resource_quota(
        namespace, {"metadata": meta("q"), "spec": {"hard": {"pods": "20"}, "scopes": None}}
    ),
    "job": batch.create_namespaced_job(namespace, batch_job),
}
read = {
    "configmap": lambda: core.read_namespaced_config_map("cm", namespace),
    "secret": lambda: core.read_namespaced_secret("s", namespace),
    "claim": lambda: core.read_namespaced_persistent_volume_claim("pvc", namespace),
    "service": lambda: core.read_namespaced_service("svc", namespace),
    "account": lambda: core.read_namespaced_service_account("sa", namespace),
    "role": lambda: rbac.read_namespaced_role("r", namespace),
    "quota": lambda: core.read_namespaced_resource_quota("q", namespace),
    "job": lambda: batch.read_namespaced_job("j", namespace),
}
same("the Service's target port", created["service"].spec.ports[0].target_port, 80)
until(
    "the Job completes",
    lambda: [c for c in read["job"]().status.conditions or [] if c.type == "Complete" and c.status == "True"],
)


def plan(what):
    """Compares each object with what was created: only what the server itself fills in may differ."""
    for kind, call in read.items():
        was, now = (client.ApiClient().sanitize_for_serialization(o) for o in (created[kind], call()))
        if kind == "claim":
            now["spec"].pop("volumeName", None), was["spec"].pop("volumeName", None)
        for part in ("spec", "data", "rules", "type", "automountServiceAccountToken"):
            same(f"{what}: {part} of the {kind}", now.get(part), was.get(part))
        for part in ("labels", "uid", "name"):
            same(f"{what}: {part} of the {kind}", now["metadata"].get(part), was["metadata"].get(part))


plan("the plan after it was applied")
created["configmap"] = core.patch_namespaced_config_map(
    "cm", namespace, [{"op": "replace", "path": "/data", "value": {"a": "2", "b": "3"}}]
)
same("the ConfigMap", read["configmap"]().data, {"a": "2", "b": "3"})
created["job"] = batch.patch_namespaced_job(
    "j",
    namespace,
    [
        {"op": "add", "path": "/metadata/labels", "value": dict(read["job"]().metadata.labels or {}, team="data")},
        {"op": "replace", "path": "/spec/backoffLimit", "value": 2},
    ],
)
created["service"] = core.patch_namespaced_service(
    "svc",
    namespace,
    [{"op": "replace", "path": "/spec/ports", "value": [{"port": 81, "targetPort": "web", "protocol": "TCP"}]}],
)
created["quota"] = core.patch_namespaced_resource_quota(
    "q", namespace, [{"op": "replace", "path": "/spec/hard", "value": {"pods": "30"}}]
)
plan("the plan after a change")

core.create_namespaced_secret(
    namespace,
    {
        "metadata": dict(meta("tok"), annotations={"kubernetes.io/service-account.name": "sa"}),
        "type": "kubernetes.io/service-account-token",
    },
)
until("the Secret has a token", lambda: (core.read_namespaced_secret("tok", namespace).data or {}).get("token"))
same("the namespace's claim class", bool(client.StorageV1Api().list_storage_class().items), True)

foreground = {"propagation_policy": "Foreground"}
batch.delete_namespaced_job("j", namespace, **foreground)
gone("the Job", read["job"])
core.delete_namespaced_persistent_volume_claim("pvc", namespace)
core.delete_namespaced_config_map("cm", namespace)
core.delete_namespaced_secret("s", namespace)
core.delete_namespaced_service("svc", namespace)
core.delete_namespaced_service_account("sa", namespace)
rbac.delete_namespaced_role("r", namespace)
core.delete_namespaced_resource_quota("q", namespace)
for kind, call in read.items():
    gone("the " + kind, call)
gone("the token of the ServiceAccount", lambda: core.read_namespaced_secret("tok", namespace))
