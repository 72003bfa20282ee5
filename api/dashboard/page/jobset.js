// A JobSet: its groups as a graph, why it is as it is, its Jobs, events, the manifest.
import {get, patch, request, follow, setPath, jobPath} from './api.js';
import {h, link, ago, between, moment, jobState, setState, badge, bar, table, section, action, reason as told, later, redraw} from './ui.js';
import {SetPicture} from './set.js';
import {eventsOf} from './job.js';

const shown = 100; // Jobs
const urgent = {Failed: 0, Failing: 0, Waiting: 1, Preempted: 1, Paused: 2, Running: 3, Terminating: 3, Completing: 3, Suspended: 4, Complete: 5};

export function jobSetPage(main, signal, status, ns, name) {
  const path = setPath(ns, name);
  const head = h('div', {class: 'head'}), buttons = h('div', {class: 'row'}), drawing = h('div', {class: 'drawing'}), why = h('div', {}, 'Loading…'),
    rows = h('div', {}, 'Loading…'), events = h('div', {}, 'Loading…'), manifest = h('pre', {class: 'manifest', tabindex: 0});
  main.replaceChildren(h('div', {class: 'title'}, h('h1', {}, h('span', {class: 'faint'}, ns + '/'), name), buttons), head, section('Why', why), drawing,
    section('Jobs', rows), section('Events', events), h('section', {}, h('details', {}, h('summary', {}, 'Manifest'), manifest)));
  let set = null, drawn = '';
  const jobs = new Map();

  const picture = new SetPicture(drawing, {link: job => link('jobs', ns, job)});
  signal.addEventListener('abort', () => picture.destroy(), {once: true});
  let timer = 0, failed = 0, waits = false;
  async function draw() {
    try {
      const data = await get(path + '/picture', signal);
      picture.update(data);
      head.firstChild?.replaceWith(badge(data.state));
      failed = 0;
    } catch (e) {
      if (signal.aborted) return;
      failed++;
      if (!picture.data) drawing.replaceChildren(h('p', {class: 'faint'}, e.message));
      if (e.code === 403 || e.code === 404) return;
    }
    const quiet = document.hidden || picture.data?.ended;
    timer = setTimeout(draw, Math.min(10000, (quiet ? 5000 : 700) * (1 + failed)));
  }
  signal.addEventListener('abort', () => clearTimeout(timer), {once: true});
  draw();

  async function explain() {
    try { why.replaceChildren(...told(await get(path + '/why', signal))); } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  }
  const soon = () => { waits ||= !!setTimeout(() => { waits = false; if (!signal.aborted) explain(); }, 1000); };

  const itsEvents = eventsOf(events, signal, ns, {'involvedObject.kind': 'JobSet', 'involvedObject.name': name});
  function show(object) {
    set = object;
    itsEvents(set.metadata.uid);
    const {state} = setState(set);
    head.replaceChildren(badge(picture.data?.state ?? state), h('span', {class: 'faint'}, 'created ' + moment(set.metadata.creationTimestamp)));
    const clean = structuredClone(set);
    delete clean.metadata.managedFields;
    manifest.textContent = JSON.stringify(clean, null, 2);
    const over = state === 'Complete' || state === 'Failed', suspend = !set.spec.suspend, word = suspend ? 'Suspend' : 'Resume';
    if (drawn === word + over) return;
    drawn = word + over;
    buttons.replaceChildren(
      over ? '' : action(word, `${word} JobSet ${ns}/${name}?${suspend ? ' The pods of its Jobs end, and do not count as failed.' : ''}`,
        ['patch', 'jobset.x-k8s.io', 'jobsets', '', ns, name], () => patch(path, {spec: {suspend}})),
      action('Delete', `Delete JobSet ${ns}/${name} with its Jobs, their pods and logs?`, ['delete', 'jobset.x-k8s.io', 'jobsets', '', ns, name],
        () => request(path, {method: 'DELETE', body: {kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background'}})));
  }

  const list = later(() => {
    if (signal.aborted) return;
    const all = [...jobs.values()].map(j => ({j, ...jobState(j)})).sort((a, b) => urgent[a.state] - urgent[b.state] ||
      a.j.metadata.name.localeCompare(b.j.metadata.name, 'en', {numeric: true}));
    redraw(rows, table(['Job', 'State', 'Pods done', 'Failed', 'Time', 'Created', ''], all.slice(0, shown).map(({j, state, reason, at}) => {
      const {succeeded = 0, failed = 0, ready = 0, startTime} = j.status ?? {}, {completions} = j.spec;
      return [h('a', {href: link('jobs', ns, j.metadata.name)}, j.metadata.name), badge(state),
        h('span', {}, bar({succeeded, failed, ready, completions}), ` ${succeeded}${completions ? ' of ' + completions : ''}`), failed || '', between(startTime, at),
        ago(j.metadata.creationTimestamp), reason ?? ''];
    }), 'It has no Jobs.'), all.length > shown ? h('p', {class: 'faint'}, `${(all.length - shown).toLocaleString()} more. The picture has all of them.`) : '');
  });

  explain();
  follow(setPath(ns), {fieldSelector: 'metadata.name=' + name}, {
    reset: () => {}, put: s => { show(s); soon(); }, remove: () => { head.replaceChildren(badge('Deleted')); buttons.replaceChildren(); },
    state: (live, e) => { status(live, e); if (live && !set) { head.replaceChildren(h('p', {}, 'There is no such JobSet.')); itsEvents(''); } },
  }, signal);
  follow(jobPath(ns), {labelSelector: 'jobset.sigs.k8s.io/jobset-name=' + name}, {
    reset: () => jobs.clear(), put: j => { jobs.set(j.metadata.uid, {metadata: {...j.metadata, managedFields: undefined}, spec: {...j.spec, template: undefined}, status: j.status}); list(); },
    remove: j => { jobs.delete(j.metadata.uid); list(); }, state: (live, e) => { if (!live && e?.code === 403) rows.textContent = e.message; else list(); },
  }, signal);
}
