"""Replays kube-burner: objects created at a rate, measured, patched, read, deleted.

Source: kube-burner/kube-burner, pkg/burner/create.go, patch.go, read.go, delete.go, namespaces.go,
  pkg/measurements/pod_latency.go, job_latency.go.
Calls: a namespace with kube-burner's labels; pods made by several workers at once while one watch by a label records when the
  conditions of each become true; a strategic merge patch for each pod of a label; reads; deletion by the label, waited for by
  lists of a page each; the namespace deleted and waited for.
Expects: PodScheduled, Initialized, ContainersReady and Ready with times, in this order; no event of the watch lost while pods
  come at once; limit and continue.
"""
import threading
from concurrent.futures import ThreadPoolExecutor

from kubernetes import watch

from replay import *

own = namespace + "-0"
core.create_namespace({"metadata": {"name": own, "labels": {"kube-burner.io/job": "pods", "kube-burner.io/uuid": "u"}}})
label, count = "kube-burner.io/job=pods", 10
ready, done = {}, threading.Event()


def measure():
    for event in watch.Watch().stream(core.list_namespaced_pod, own, label_selector=label, timeout_seconds=watch_deadline):
        conditions = {c.type: c.last_transition_time for c in event["object"].status.conditions or [] if c.status == "True"}
        if "Ready" in conditions:
            ready[event["object"].metadata.name] = conditions
        if len(ready) == count:
            done.set()
            return


threading.Thread(target=measure, daemon=True).start()


def create(i):
    core.create_namespaced_pod(
        own,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{i}", "labels": {"kube-burner.io/job": "pods", "kube-burner.io/index": str(i)}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "c",
                        "image": "busybox:1.36",
                        "command": ["sleep", "1000"],
                        "resources": {"requests": {"cpu": "1m"}},
                    }
                ],
            },
        },
    )


with ThreadPoolExecutor(5) as workers:
    list(workers.map(create, range(count)))
same("all pods become ready", done.wait(watch_deadline), True)
for name, conditions in ready.items():
    times = [conditions[kind] for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
    same(f"the order of the conditions of {name}", times, sorted(times))

for i in range(count):
    core.patch_namespaced_pod(f"p-{i}", own, {"metadata": {"labels": {"patched": "yes"}}})
names, page = [], core.list_namespaced_pod(own, label_selector="patched=yes", limit=3)
while True:
    names += [p.metadata.name for p in page.items]
    if not page.metadata._continue:
        break
    page = core.list_namespaced_pod(own, label_selector="patched=yes", limit=3, _continue=page.metadata._continue)
same("the patched pods, page by page", names, sorted(f"p-{i}" for i in range(count)))
for name in names:
    core.delete_namespaced_pod(name, own)
until("the pods are gone", lambda: not core.list_namespaced_pod(own, label_selector=label, limit=1).items)
core.delete_namespace(own)
gone("the namespace", lambda: core.read_namespace(own))
