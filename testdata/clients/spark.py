"""Replays spark-submit --deploy-mode cluster, and the driver that it starts.

Source: apache/spark, resource-managers/kubernetes/core/src/main/scala/org/apache/spark:
  deploy/k8s/submit/KubernetesClientApplication.scala, scheduler/cluster/k8s/ExecutorPodsAllocator.scala,
  ExecutorPodsPollingSnapshotSource.scala, KubernetesClusterSchedulerBackend.scala.
Calls: the driver's pod is created first; then the ConfigMap that it mounts and its headless Service, owned by it, since they
  need its uid; it is watched to its end. The driver, by the ServiceAccount in its pod, creates executors that are its own,
  marks one as inactive, lists them from resourceVersion 0, and deletes them by their labels.
Expects: a pod that waits for a ConfigMap that does not exist yet; a name in DNS by which executors find the driver; the token
  and certificate in the pod; all that the driver owns to go with it.
"""
from kubernetes import watch

from replay import *

app = {"spark-app-selector": "spark-1", "spark-app-name": "pi"}
driver_script = r"""
import json, os, socket, ssl, threading, time, urllib.request
mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"
token, namespace = open(mounted + "token").read(), open(mounted + "namespace").read()
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
base = "https://%s:%s/api/v1/namespaces/%s/" % (host, port, namespace)
trust = ssl.create_default_context(cafile=mounted + "ca.crt")
def call(method, path, body=None, kind="application/json"):
    headers = {"Authorization": "Bearer " + token, "Content-Type": kind}
    request = urllib.request.Request(base + path, body and json.dumps(body).encode(), headers, method=method)
    return json.load(urllib.request.urlopen(request, context=trust))
print(open("/opt/spark/conf/spark.properties").read())
listener, heard = socket.create_server(("0.0.0.0", 7078)), []
def serve():
    while True:
        peer, _ = listener.accept()
        heard.append(peer.makefile().readline().strip())
        peer.close()
threading.Thread(target=serve, daemon=True).start()
me = call("GET", "pods/" + os.environ["HOSTNAME"])["metadata"]
own = [{"apiVersion": "v1", "kind": "Pod", "name": me["name"], "uid": me["uid"], "controller": True}]
call("POST", "configmaps", {"metadata": {"name": "executor-conf", "ownerReferences": own}, "data": {"a": "b"}})
says = "until echo executor %d $CPU | nc pi-driver-svc." + namespace + ".svc 7078; do sleep 0.2; done"
for i in (1, 2):
    call("POST", "pods", {"metadata": {"name": "pi-exec-%d" % i, "ownerReferences": own,
        "labels": {"spark-app-selector": "spark-1", "spark-role": "executor", "spark-exec-id": str(i)}},
      "spec": {"restartPolicy": "Never", "hostname": "pi-exec-%d" % i, "containers": [{
        "name": "spark-kubernetes-executor", "image": "busybox:1.36", "command": ["sh", "-c", says % i],
        "resources": {"requests": {"cpu": "50m"}},
        "env": [{"name": "SPARK_EXECUTOR_POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}],
        "volumeMounts": [{"name": "spark-local-dir-1", "mountPath": "/var/data"}]}],
        "volumes": [{"name": "spark-local-dir-1", "emptyDir": {}}]}})
call("PATCH", "pods/pi-exec-1", {"metadata": {"labels": {"spark-exec-inactive": "true"}}}, "application/merge-patch+json")
mine = "pods?labelSelector=spark-app-selector%3Dspark-1%2Cspark-role%3Dexecutor"
def active():
    pods = call("GET", mine + "%2Cspark-exec-inactive%21%3Dtrue&resourceVersion=0")["items"]
    return [p for p in pods if p["status"]["phase"] != "Succeeded"]
while len(heard) < 2 or active():
    time.sleep(0.1)
print("\n".join(sorted(heard)))
call("DELETE", mine)
call("DELETE", "persistentvolumeclaims?labelSelector=spark-app-selector%3Dspark-1")
"""

core.create_namespaced_service_account(namespace, {"metadata": {"name": "spark"}})
rbac.create_namespaced_role_binding(
    namespace,
    {
        "metadata": {"name": "spark"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "spark", "namespace": namespace}],
    },
)
driver = core.create_namespaced_pod(
    namespace,
    {
        "metadata": {
            "name": "pi-driver",
            "labels": dict(app, **{"spark-role": "driver"}),
            "annotations": {"spark-app-name": "pi"},
        },
        "spec": {
            "serviceAccountName": "spark",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "spark-kubernetes-driver",
                    "image": "python:3",
                    "command": ["python3", "-c", driver_script],
                    "env": [
                        {
                            "name": "SPARK_DRIVER_BIND_ADDRESS",
                            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
                        }
                    ],
                    "ports": [
                        {"containerPort": 7078, "name": "driver-rpc-port", "protocol": "TCP"},
                        {"containerPort": 4040, "name": "spark-ui"},
                    ],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                    "volumeMounts": [
                        {"name": "conf", "mountPath": "/opt/spark/conf"},
                        {"name": "local", "mountPath": "/var/data"},
                    ],
                }
            ],
            "volumes": [
                {
                    "name": "conf",
                    "configMap": {
                        "name": "pi-driver-conf",
                        "items": [{"key": "spark.properties", "path": "spark.properties", "mode": 420}],
                    },
                },
                {"name": "local", "emptyDir": {"medium": "Memory"}},
            ],
        },
    },
)
own = [{"apiVersion": "v1", "kind": "Pod", "name": "pi-driver", "uid": driver.metadata.uid, "controller": True}]
core.create_namespaced_config_map(
    namespace,
    {
        "metadata": {"name": "pi-driver-conf", "ownerReferences": own},
        "immutable": True,
        "data": {"spark.properties": "spark.app.name=pi"},
    },
)
core.create_namespaced_service(
    namespace,
    {
        "metadata": {"name": "pi-driver-svc", "ownerReferences": own},
        "spec": {
            "clusterIP": "None",
            "selector": dict(app, **{"spark-role": "driver"}),
            "ipFamilyPolicy": "SingleStack",
            "ports": [
                {"name": "driver-rpc-port", "port": 7078, "targetPort": 7078},
                {"name": "spark-ui", "port": 4040, "targetPort": 4040},
            ],
        },
    },
)

for event in watch.Watch().stream(
    core.list_namespaced_pod, namespace, field_selector="metadata.name=pi-driver", timeout_seconds=watch_deadline
):
    phase = event["object"].status.phase
    if phase in ("Succeeded", "Failed"):
        break
log = core.read_namespaced_pod_log("pi-driver", namespace)
same("the driver ends, and prints " + log, phase, "Succeeded")
same("what the driver prints", log, "spark.app.name=pi\nexecutor 1 50\nexecutor 2 50\n")
until("the executors are gone", lambda: not core.list_namespaced_pod(namespace, label_selector="spark-role=executor").items)
core.delete_namespaced_pod("pi-driver", namespace)
for name in ("pi-driver-conf", "executor-conf"):
    gone(name, lambda: core.read_namespaced_config_map(name, namespace))
gone("the driver's Service", lambda: core.read_namespaced_service("pi-driver-svc", namespace))
