// Replays GitHub's container hooks for Kubernetes, by which a self-hosted Actions runner runs a job's steps in pods.
//
// Source: actions/runner-container-hooks, packages/k8s/src: k8s/index.ts, hooks/prepare-job.ts, run-script-step.ts,
//   run-container-step.ts, cleanup-job.ts.
// Calls: a SelfSubjectAccessReview for each permission; the runner's own pod is read for its node; a pod with that nodeName, a
//   claim called work and an immutable Secret for pulling is created, and read until it runs; a step is a script in the work
//   volume, run by exec, of which the end of the WebSocket tells the result; a container step is a Job whose pod is found by its
//   label, whose log is followed, and which is read until it counts as succeeded. All is found by a label at the end, and deleted
//   without grace.
// Expects: every review allowed; a pod that names its node runs there; a failed step is a Status that is not a Success; a list of
//   events by labels that events do not have is empty and not refused.
import * as k8s from '@kubernetes/client-node';
import assert from 'node:assert/strict';
import {PassThrough} from 'node:stream';
import {text} from 'node:stream/consumers';

const namespace = process.argv[2];
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api),
  batch = config.makeApiClient(k8s.BatchV1Api);
const access = config.makeApiClient(k8s.AuthorizationV1Api);
const label = 'runner-pod=runner',
  labels = {'runner-pod': 'runner'};
const work = {name: 'work', persistentVolumeClaim: {claimName: 'work'}},
  mounts = [{name: 'work', mountPath: '/__w'}];
const pause = () => new Promise(resolve => setTimeout(resolve, 100));
const base64 = words => Buffer.from(words).toString('base64');

async function phase(name, wanted) {
  for (;;) {
    const {status} = await core.readNamespacedPod({namespace, name});
    if (status.phase === wanted) return;
    assert.ok(['Pending', 'Running'].includes(status.phase), `${name} is ${status.phase}`);
    await pause();
  }
}

function step(pod, command) {
  const out = new PassThrough(),
    printed = text(out);
  return new Promise((resolve, reject) =>
    new k8s.Exec(config)
      .exec(namespace, pod, 'job', command, out, new PassThrough(), null, false, status => {
        out.end();
        status.status === 'Success' ? resolve(printed) : reject(new Error(status.message));
      })
      .catch(reject),
  );
}

const permissions = [
  ['', ['get', 'list', 'create', 'delete'], 'pods', ''],
  ['', ['get', 'create'], 'pods', 'exec'],
  ['', ['get', 'list', 'watch'], 'pods', 'log'],
  ['batch', ['get', 'list', 'create', 'delete'], 'jobs', ''],
  ['', ['create', 'delete', 'get', 'list'], 'secrets', ''],
];
for (const [group, verbs, resource, subresource] of permissions) {
  for (const verb of verbs) {
    const review = await access.createSelfSubjectAccessReview({
      body: {spec: {resourceAttributes: {verb, namespace, group, resource, subresource}}},
    });
    assert.ok(review.status.allowed, `${verb} ${resource}/${subresource}`);
  }
}

await core.createNamespacedPersistentVolumeClaim({
  namespace,
  body: {metadata: {name: 'work'}, spec: {accessModes: ['ReadWriteOnce'], resources: {requests: {storage: '1Gi'}}}},
});
await core.createNamespacedPod({
  namespace,
  body: {
    metadata: {name: 'runner'},
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      volumes: [work],
      containers: [
        {
          name: 'runner',
          image: 'busybox:1.36',
          volumeMounts: mounts,
          command: ['sh', '-c', "mkdir -p /__w/_temp && echo 'echo in $PWD; exit $1' >/__w/_temp/step.sh && sleep 1000"],
        },
      ],
    },
  },
});
await phase('runner', 'Running');
const {
  spec: {nodeName},
} = await core.readNamespacedPod({namespace, name: 'runner'});

await core.createNamespacedSecret({
  namespace,
  body: {
    metadata: {name: 'runner-secret', labels},
    immutable: true,
    type: 'kubernetes.io/dockerconfigjson',
    data: {
      '.dockerconfigjson': base64(
        JSON.stringify({auths: {'https://index.docker.io/v1/': {username: 'u', password: 'p', auth: base64('u:p')}}}),
      ),
    },
  },
});
await core.createNamespacedPod({
  namespace,
  body: {
    metadata: {name: 'runner-workflow', labels, annotations: {}},
    spec: {
      nodeName,
      restartPolicy: 'Never',
      imagePullSecrets: [{name: 'runner-secret'}],
      volumes: [work, {name: 'script-executor', emptyDir: {}}],
      containers: [
        {
          name: 'job',
          image: 'busybox:1.36',
          command: ['tail'],
          args: ['-f', '/dev/null'],
          workingDir: '/__w',
          volumeMounts: mounts,
        },
        {
          name: 'service',
          image: 'busybox:1.36',
          command: ['httpd', '-f', '-p', '8080', '-h', '/__w'],
          ports: [{containerPort: 8080, protocol: 'TCP'}],
          volumeMounts: mounts,
        },
      ],
    },
  },
});
await phase('runner-workflow', 'Running');
const script = 'until [ -e /__w/_temp/step.sh ]; do sleep 0.1; done; sh -e /__w/_temp/step.sh ';
assert.equal(await step('runner-workflow', ['sh', '-c', script + '0']), 'in /__w\n');
await assert.rejects(step('runner-workflow', ['sh', '-c', script + '3']), /exit code 3/);
assert.equal(
  await step('runner-workflow', ['sh', '-c', 'wget -qO- http://localhost:8080/_temp/step.sh']),
  'echo in $PWD; exit $1\n',
);

await core.createNamespacedSecret({
  namespace,
  body: {metadata: {name: 'runner-env', labels}, immutable: true, data: {GREETING: base64('hello')}},
});
await batch.createNamespacedJob({
  namespace,
  body: {
    metadata: {name: 'runner-step', labels, annotations: {}},
    spec: {
      ttlSecondsAfterFinished: 300,
      backoffLimit: 0,
      template: {
        metadata: {labels: {}, annotations: {}},
        spec: {
          nodeName,
          restartPolicy: 'Never',
          volumes: [work],
          containers: [
            {
              name: 'job',
              image: 'busybox:1.36',
              command: ['sh', '-c', 'echo $GREETING from a container step'],
              volumeMounts: mounts,
              envFrom: [{secretRef: {name: 'runner-env', optional: false}}],
            },
          ],
        },
      },
    },
  },
});
let pods;
while (!(pods = await core.listNamespacedPod({namespace, labelSelector: 'job-name=runner-step', limit: 1})).items.length)
  await pause();
const name = pods.items[0].metadata.name;
for (let state; !['Running', 'Succeeded'].includes(state); await pause())
  ({
    status: {phase: state},
  } = await core.readNamespacedPod({namespace, name}));
const log = new PassThrough(),
  logged = text(log);
await new k8s.Log(config).log(namespace, name, 'job', log, {follow: true, pretty: false, timestamps: false});
assert.equal(await logged, 'hello from a container step\n');
for (let job; !job?.status?.succeeded; await pause()) {
  job = await batch.readNamespacedJob({namespace, name: 'runner-step'});
  assert.ok(!job.status?.failed);
}
const events = await core.listNamespacedEvent({
  namespace,
  labelSelector: `involvedObject.namespace=${namespace},involvedObject.name=${name}`,
});
assert.equal(events.items.length, 0);

for (const {metadata} of (await core.listNamespacedPod({namespace, labelSelector: label})).items)
  await core.deleteNamespacedPod({namespace, name: metadata.name, gracePeriodSeconds: 0});
const secrets = await core.listNamespacedSecret({namespace, labelSelector: label});
assert.equal(secrets.items.length, 2);
for (const {metadata} of secrets.items) await core.deleteNamespacedSecret({namespace, name: metadata.name});
process.exit(0);
