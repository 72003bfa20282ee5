// A program with @kubernetes/client-node: a Job is created and watched, its log followed while it runs, commands run in its pod,
// a port forwarded, the Job patched and deleted.
import * as k8s from '@kubernetes/client-node';
import assert from 'node:assert/strict';
import net from 'node:net';
import {PassThrough, Readable, Writable} from 'node:stream';
import {text} from 'node:stream/consumers';

const namespace = process.argv[2];
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api),
  batch = config.makeApiClient(k8s.BatchV1Api);

// Watches until what the server tells is as wanted.
function until(path, query, wanted) {
  return new Promise((resolve, reject) => {
    const watching = new k8s.Watch(config).watch(
      path,
      query,
      async (type, object) => {
        if (!wanted(type, object)) return;
        resolve(object);
        (await watching).abort();
      },
      reason => reject(reason ?? new Error(`the watch of ${path} has ended`)),
    );
  });
}

// Runs a command in the pod. Its status is what the server says of its end.
async function run(pod, command, input = null, tty = false) {
  const out = new PassThrough(),
    err = new PassThrough(),
    printed = text(out),
    complained = text(err);
  const status = await new Promise((resolve, reject) => {
    new k8s.Exec(config).exec(namespace, pod, 'c', command, out, err, input, tty, resolve).catch(reject);
  });
  out.end();
  err.end();
  return {status, out: await printed, err: await complained};
}

const script = 'echo hello; httpd -p 8080 -h /tmp; until [ -e /tmp/go ]; do sleep 0.1; done; echo bye';
await batch.createNamespacedJob({
  namespace,
  body: {
    metadata: {name: 'node'},
    spec: {
      template: {
        spec: {
          restartPolicy: 'Never',
          terminationGracePeriodSeconds: 1,
          containers: [{name: 'c', image: 'busybox:1.36', command: ['sh', '-c', script]}],
        },
      },
    },
  },
});
const pod = await until(`/api/v1/namespaces/${namespace}/pods`, {labelSelector: 'job-name=node'}, (type, p) =>
  p.status.containerStatuses?.every(c => c.ready),
);
const name = pod.metadata.name;

const log = new PassThrough(),
  logged = text(log);
await new k8s.Log(config).log(namespace, name, 'c', log, {follow: true});

let ran = await run(name, ['sh', '-c', 'echo out; echo err >&2; exit 7']);
assert.equal(ran.out, 'out\n');
assert.equal(ran.err, 'err\n');
assert.equal(ran.status.status, 'Failure');
assert.deepEqual(
  ran.status.details.causes.map(c => [c.reason, c.message]),
  [['ExitCode', '7']],
);
ran = await run(name, ['sh', '-c', 'test -t 0 && echo on a terminal'], null, true);
assert.equal(ran.out, 'on a terminal\r\n');
ran = await run(name, ['head', '-c', '300000'], Readable.from([Buffer.alloc(300000, 'x')]));
assert.equal(ran.out.length, 300000);

// The client closes the connection as soon as its input has ended: what it has sent is there all the same.
const socket = await new k8s.Exec(config).exec(
  namespace,
  name,
  'c',
  ['sh', '-c', 'cat >/tmp/sent; echo whole >>/tmp/sent'],
  new PassThrough(),
  new PassThrough(),
  Readable.from(['sent and ']),
  false,
);
await new Promise(resolve => socket.once('close', resolve));
while ((ran = await run(name, ['cat', '/tmp/sent'])).out !== 'sent and whole\n')
  await new Promise(resolve => setTimeout(resolve, 100));

ran = await run(name, ['sh', '-c', 'echo page >/tmp/index.html']);
const forward = new k8s.PortForward(config);
const server = net.createServer(peer => forward.portForward(namespace, name, [8080], peer, null, peer));
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
assert.equal(
  await (await fetch(`http://127.0.0.1:${server.address().port}/index.html`, {headers: {connection: 'close'}})).text(),
  'page\n',
);
server.close();

await batch.patchNamespacedJob({
  namespace,
  name: 'node',
  body: [{op: 'add', path: '/metadata/annotations', value: {seen: 'yes'}}],
});
await run(name, ['touch', '/tmp/go']);
const job = await until(
  `/apis/batch/v1/namespaces/${namespace}/jobs`,
  {fieldSelector: 'metadata.name=node'},
  (type, j) => j.status?.succeeded,
);
assert.equal(job.metadata.annotations.seen, 'yes');
assert.equal(await logged, 'hello\nbye\n');

const informer = k8s.makeInformer(config, `/apis/batch/v1/namespaces/${namespace}/jobs`, () =>
  batch.listNamespacedJob({namespace}),
);
const deleted = new Promise(resolve => informer.on('delete', resolve));
await informer.start();
await batch.deleteNamespacedJob({namespace, name: 'node', propagationPolicy: 'Foreground'});
assert.equal((await deleted).metadata.name, 'node');
await informer.stop();
await assert.rejects(core.readNamespacedPod({namespace, name}), e => e.code === 404);
process.exit(0);
