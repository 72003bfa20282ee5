"""Replays Jenkins' Kubernetes plugin: an agent's pod, and steps in its second container.

Source: jenkinsci/kubernetes-plugin, src/main/java/org/csanchez/jenkins/plugins/kubernetes: KubernetesLauncher.java,
  PodTemplateBuilder.java, pipeline/ContainerExecDecorator.java, pipeline/ContainerExecProc.java.
Calls: a pod of an agent and of a tool that is `cat` on a terminal, sharing a workspace, is created and watched until all is
  ready. A step is a shell opened by exec, without a command of its own: its lines are written to it, the last is `exit`. When
  a pod goes wrong, its events and the last 20 lines of its logs are read. The pod is deleted at the end.
Expects: a container on a terminal that nobody has attached to stays; a shell lives for as long as its client writes; its exit
  code comes at the end; a file written in one container is there in the other.
"""
from kubernetes import watch

from replay import *

workspace = [{"mountPath": "/home/jenkins/agent", "name": "workspace-volume", "readOnly": False}]
core.create_namespaced_pod(
    namespace,
    {
        "metadata": {
            "name": "agent-1",
            "labels": {"jenkins": "slave", "jenkins/label": "x"},
            "annotations": {"buildUrl": "http://j/", "runUrl": "job/x/1/"},
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "jnlp",
                    "image": "busybox:1.36",
                    "command": ["sleep", "1000"],
                    "volumeMounts": workspace,
                    "env": [
                        {"name": "JENKINS_AGENT_NAME", "value": "agent-1"},
                        {"name": "REMOTING_OPTS", "value": "-noReconnectAfter 1d"},
                    ],
                    "resources": {"requests": {"memory": "64Mi", "cpu": "10m"}},
                },
                {
                    "name": "tool",
                    "image": "busybox:1.36",
                    "command": ["cat"],
                    "tty": True,
                    "workingDir": "/home/jenkins/agent",
                    "volumeMounts": workspace,
                },
            ],
            "volumes": [{"name": "workspace-volume", "emptyDir": {"medium": ""}}],
        },
    },
)
for event in watch.Watch().stream(
    core.list_namespaced_pod, namespace, field_selector="metadata.name=agent-1", timeout_seconds=watch_deadline
):
    statuses = event["object"].status.container_statuses or []
    if statuses and all(c.ready for c in statuses):
        break


def step(*lines):
    """Runs lines in a shell in the tool's container, and returns what they print and the exit code."""
    shell = execute("agent-1", "tool", ["sh"], stdin=True)
    for line in ('cd "/home/jenkins/agent"', 'export BUILD_NUMBER="1"') + lines + ("exit",):
        shell.write_stdin(line + "\n")
    shell.run_forever(timeout=watch_deadline)
    return shell.read_stdout() + shell.read_stderr(), shell.returncode


same("a step", step("echo build $BUILD_NUMBER | tee built"), ("build 1\n", 0))
same("a step that fails", step("sh -c 'echo broken >&2; exit 3'"), ("broken\n", 3))
agent = execute("agent-1", "jnlp", ["cat", "/home/jenkins/agent/built"])
agent.run_forever(timeout=watch_deadline)
same("the agent's copy of the workspace", agent.read_all(), "build 1\n")
same("the tool runs on", states("agent-1")["tool"].running is not None, True)
same(
    "there are events of the pod",
    bool(core.list_namespaced_event(namespace, field_selector="involvedObject.name=agent-1").items),
    True,
)
same("the log of the tool", core.read_namespaced_pod_log("agent-1", namespace, container="tool", tail_lines=20), "")
core.delete_namespaced_pod("agent-1", namespace)
gone("the agent", lambda: pod("agent-1"))
