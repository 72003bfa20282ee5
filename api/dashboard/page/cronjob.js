// A CronJob: when it runs, what it has missed, its Jobs.
import {get, post, patch, follow, cronPath, jobPath} from './api.js';
import {h, link, ago, between, badge, table, section, action, moment, facts, jobState, reason as told} from './ui.js';
import {eventsOf} from './job.js';
import {pastJobs} from './places.js';

const past = 50; // Jobs that have ended

export function cronJobPage(main, signal, status, ns, name) {
  const head = h('div', {class: 'head'}, 'Loading…'), buttons = h('div', {class: 'row'}), said = h('p', {class: 'faint'}), times = h('div'),
    why = h('div', {}, 'Loading…'), runs = h('div'), jobs = h('div', {}, 'Loading…'), events = h('div', {}, 'Loading…'), manifest = h('pre', {class: 'manifest', tabindex: 0});
  main.replaceChildren(h('div', {class: 'title'}, h('h1', {}, h('span', {class: 'faint'}, ns + '/'), name), buttons), head, said, times, section('Why', why),
    section('Jobs', runs, jobs), section('Events', events), h('section', {}, h('details', {}, h('summary', {}, 'Manifest'), manifest)));
  const itsEvents = eventsOf(events, signal, ns, {'involvedObject.kind': 'CronJob', 'involvedObject.name': name});
  let cronJob = null, next = '', asked = 0;

  const showTimes = () => {
    const {spec, status: has = {}} = cronJob;
    times.replaceChildren(table(['Schedule', 'Last run', 'Last success', 'Next'], [[
      h('span', {}, h('code', {}, spec.schedule), h('span', {class: 'faint'}, spec.timeZone ? ' ' + spec.timeZone : '')),
      ago(has.lastScheduleTime), ago(has.lastSuccessfulTime), next || '–']]));
  };
  async function explain() {
    try {
      const answer = await get(cronPath(ns, name) + '/why', signal);
      why.replaceChildren(...told(answer));
      next = nextRun(answer);
      showTimes();
    } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  }
  async function list() {
    const active = cronJob.status?.active ?? [];
    try {
      const [ended, ...all] = await Promise.all([runsOf(cronJob, past, signal), ...active.slice(0, past).map(j => get(jobPath(ns, j.name), signal).catch(() => null))]);
      const going = all.filter(Boolean);
      runs.replaceChildren(strip(ended.toReversed(), active, ns), going.length ? table(['Job', 'State', 'Created'], going.map(j =>
        [h('a', {href: link('jobs', ns, j.metadata.name)}, j.metadata.name), badge(jobState(j).state), ago(j.metadata.creationTimestamp)])) : '');
      jobs.replaceChildren(pastJobs(ended, 'No Job of it has ended yet.'));
    } catch (e) { if (!signal.aborted) jobs.textContent = e.message; }
  }
  function show(object) {
    cronJob = object;
    itsEvents(object.metadata.uid);
    head.replaceChildren(object.spec.suspend ? badge('Suspended') : '', overdue(object) ? badge('Overdue') : '',
      h('span', {class: 'faint'}, 'created ' + moment(object.metadata.creationTimestamp)));
    said.replaceChildren(...facts(object.spec.jobTemplate.spec.template.spec));
    buttons.replaceChildren(...cronActions(object));
    const clean = structuredClone(object);
    delete clean.metadata.managedFields;
    manifest.textContent = JSON.stringify(clean, null, 2);
    showTimes();
    asked ||= setTimeout(() => { asked = 0; if (!signal.aborted) { explain(); list(); } }, next ? 1000 : 0);
  }
  follow(`apis/batch/v1/namespaces/${encodeURIComponent(ns)}/cronjobs`, {fieldSelector: 'metadata.name=' + name}, {
    reset: () => {}, put: show, remove: () => { head.replaceChildren(badge('Deleted')); buttons.replaceChildren(); },
    state: (live, e) => {
      status(live, e);
      if (!live || cronJob) return;
      head.replaceChildren(h('p', {}, 'There is no such CronJob.'));
      why.textContent = jobs.textContent = '';
      itsEvents('');
    },
  }, signal);
}

// strip shows how the runs of a CronJob have ended, the oldest first, and then those that run.
export const strip = (ended, active, ns) => h('span', {class: 'strip'}, [
  ...ended.map(j => [j.name, j.result, j.result === 'Complete' ? 's' : 'f', ` after ${between(j.started, j.ended)}, ${moment(j.ended)}`]),
  ...active.map(j => [j.name, 'Running', 'r', '']),
].map(([name, result, state, more]) => h('a', {class: state, href: link('jobs', ns, name), title: `${name}: ${result}${more}`, 'aria-label': `${name}: ${result}`})));

// overdue reports whether no Job of a CronJob has succeeded within the time that an annotation gives.
export function overdue(c, now = Date.now()) {
  const text = c.metadata.annotations?.['jobd.dev/expect-success-every'];
  if (!text) return false;
  const units = {h: 3600e3, m: 60e3, s: 1e3, ms: 1, us: 1e-3, µs: 1e-3, ns: 1e-6};
  let time = 0;
  for (const [, n, unit] of text.matchAll(/([0-9.]+)(h|ms|m|s|us|µs|ns)/g)) time += n * units[unit];
  return time > 0 && now >= time + Math.max(Date.parse(c.metadata.creationTimestamp), Date.parse(c.status?.lastSuccessfulTime ?? 0));
}

// cronActions are the buttons of a CronJob.
export function cronActions(c) {
  const {namespace: ns, name} = c.metadata, suspend = !c.spec.suspend, word = suspend ? 'Suspend' : 'Resume';
  return [
    action('Run now', `Run CronJob ${ns}/${name} now?`, ['create', 'batch', 'jobs', '', ns], () => runNow(c)),
    action(word, `${word} CronJob ${ns}/${name}?`, ['patch', 'batch', 'cronjobs', '', ns, name], () => patch(cronPath(ns, name), {spec: {suspend}})),
  ];
}

// runsOf asks for the last runs of a CronJob that have ended, the newest first, without those of an earlier one of the same name.
export async function runsOf(c, limit, signal) {
  const {namespace: ns, name, creationTimestamp} = c.metadata;
  const {items = []} = await get(`apis/history.jobd.dev/v1/namespaces/${encodeURIComponent(ns)}/jobs?limit=${limit}&cronJob=${encodeURIComponent(name)}`, signal);
  return items.filter(j => Date.parse(j.created) >= Date.parse(creationTimestamp));
}

// nextRun is when a CronJob starts a Job next, of what "jobctl why" says of it.
export function nextRun({causes = []}) {
  const next = causes.find(x => x.type === 'Schedule');
  return next?.until ? moment(next.until) : next?.message ?? '';
}

// runNow starts a Job of a CronJob as "jobctl create job --from" does.
async function runNow(c) {
  const {namespace, name, uid} = c.metadata, template = c.spec.jobTemplate;
  const job = await post(jobPath(namespace), {
    apiVersion: 'batch/v1', kind: 'Job', spec: template.spec,
    metadata: {
      generateName: name.slice(0, 50) + '-manual-', labels: template.metadata?.labels,
      annotations: {...template.metadata?.annotations, 'cronjob.kubernetes.io/instantiate': 'manual'},
      ownerReferences: [{apiVersion: 'batch/v1', kind: 'CronJob', name, uid, controller: true}],
    },
  });
  location.hash = link('jobs', namespace, job.metadata.name);
}
