// A Job: its picture, why it is as it is, pods, events, the manifest.
import {get, post, patch, request, follow, jobPath, podPath} from './api.js';
import {h, link, ago, between, moment, jobState, badge, table, section, action, reason as told, facts, later, redraw} from './ui.js';
import {Picture} from './picture.js';
import {pastJobs} from './places.js';
import {Log} from './log.js';

export function jobPage(main, signal, status, ns, name) {
  const path = jobPath(ns, name);
  const head = h('div', {class: 'head'}), buttons = h('div', {class: 'row'}), drawing = h('div', {class: 'drawing'}), why = h('div', {}, 'Loading…'),
    pods = h('div', {}, 'Loading…'), events = h('div', {}, 'Loading…'), manifest = h('pre', {class: 'manifest', tabindex: 0}), said = h('p', {class: 'faint'});
  const text = h('div'), itsLog = section('Log', text);
  itsLog.hidden = true;
  main.replaceChildren(h('div', {class: 'title'}, h('h1', {}, h('span', {class: 'faint'}, ns + '/'), name), buttons), head, said, section('Why', why), itsLog,
    drawing, section('Pods', pods), section('Events', events), h('section', {}, h('details', {}, h('summary', {}, 'Manifest'), manifest)));
  let job = null, drawn = '', log = null;

  const picture = new Picture(drawing, {onSelect: cell => showPods(cell)});
  signal.addEventListener('abort', () => picture.destroy(), {once: true});
  let cursor = '', timer = 0, failed = 0;
  async function draw() {
    try {
      const data = await get(path + '/picture' + (cursor ? '?cursor=' + encodeURIComponent(cursor) : ''), signal);
      if (!data.delta || data.job || data.cells || data.changed) picture.update(data);
      cursor = data.cursor ?? '';
      failed = 0;
    } catch (e) {
      if (signal.aborted) return;
      failed++;
      if (e.code === 403 || e.code === 404) { if (!cursor) { drawing.replaceChildren(h('p', {class: 'faint'}, e.message)); } return; }
    }
    const {state} = job ? jobState(job) : {};
    const quiet = state === 'Complete' || state === 'Failed' || document.hidden;
    timer = setTimeout(draw, Math.min(10000, (quiet ? 5000 : 700) * (1 + failed)));
  }
  signal.addEventListener('abort', () => clearTimeout(timer), {once: true});
  draw();

  // showPods shows beside the picture what has run for a cell.
  async function showPods(cell) {
    if (cell < 0) { picture.detail.replaceChildren(); return; }
    try {
      const {pods = [], values = []} = await get(path + '/picture?cell=' + cell, signal);
      picture.detail.replaceChildren(...values.map(v => h('p', {class: 'faint'}, `${v.name} = ${v.value}`)), table(['Pod', 'Began', 'Took', 'Exit code', 'Reason'], pods.map(a => [
        h('a', {href: link('pods', ns, a.pod)}, a.pod), moment(a.started && a.started * 1000),
        a.started ? between(a.started * 1000 && new Date(a.started * 1000).toISOString(), a.ended ? new Date(a.ended * 1000).toISOString() : '') : '–',
        a.exitCode ?? '', a.reason ?? '']), `Nothing has run for ${cell} yet.`));
    } catch (e) { if (!signal.aborted) picture.detail.textContent = e.message; }
  }

  async function explain() {
    try {
      const said = await get(path + '/why', signal);
      why.replaceChildren(...told(said));
    } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  }
  // Pods: those that run or have failed are what people look for; a Job may have 100,000. The log of a Job that has one pod is here.
  const index = p => p.metadata.labels?.['batch.kubernetes.io/job-completion-index'] ?? '';
  const rows = list => table(['Pod', 'Phase', 'Index', 'Exit code', 'Took', 'Created'], list.sort((a, b) => index(a) - index(b)).map(p => {
    const ends = (p.status?.containerStatuses ?? []).map(s => s.state?.terminated).filter(Boolean);
    return [h('a', {href: link('pods', ns, p.metadata.name)}, p.metadata.name), badge(p.status?.phase ?? ''), index(p),
      ends.map(e => e.exitCode).join(', '), between(p.status?.startTime, ends[0]?.finishedAt), ago(p.metadata.creationTimestamp)];
  }));
  async function listPods() {
    const query = phase => podPath(ns) + '?' + new URLSearchParams({
      labelSelector: 'batch.kubernetes.io/job-name=' + name, fieldSelector: 'status.phase=' + phase, limit: 25});
    try {
      const lists = await Promise.all(['Running', 'Failed', 'Pending', 'Succeeded'].map(p => get(query(p), signal)));
      const more = lists.some(l => l.metadata.continue), found = lists.map(l => l.items ?? []), all = found.flat();
      const open = found.slice(0, 3).flat(), done = found[3], folded = open.length > 0 && done.length > 3;
      const was = pods.querySelector('details')?.open;
      redraw(pods, !all.length ? h('p', {class: 'faint'}, 'It has no pods.') : rows(folded ? open : all),
        folded ? h('details', {open: was}, h('summary', {}, `${done.length}${lists[3].metadata.continue ? '+' : ''} have succeeded`), rows(done)) : '',
        more ? h('p', {class: 'faint'}, 'The first 25 of each phase. Choose a cell of the picture for those of an index.') : '');
      if (all.length === 1 && !more && (job?.spec.completions ?? 1) === 1) {
        itsLog.hidden = false;
        log ??= new Log(text, signal, status);
        log.show(all[0], podPath(ns, all[0].metadata.name));
      }
    } catch (e) { if (!signal.aborted) pods.textContent = e.message; }
  }

  const itsEvents = eventsOf(events, signal, ns, {'involvedObject.kind': 'Job', 'involvedObject.name': name});
  async function show(object) {
    job = object;
    itsEvents(job.metadata.uid);
    const {state} = jobState(job);
    const owner = kind => job.metadata.ownerReferences?.find(o => o.controller && o.kind === kind), set = owner('JobSet'), cronJob = owner('CronJob');
    head.replaceChildren(badge(state), set ? h('a', {href: link('jobsets', ns, set.name)}, 'JobSet ' + set.name) : '',
      cronJob ? h('a', {href: link('cronjobs', ns, cronJob.name)}, 'CronJob ' + cronJob.name) : '',
      h('span', {class: 'faint'}, 'created ' + moment(job.metadata.creationTimestamp)));
    said.replaceChildren(...facts(job.spec.template.spec));
    const clean = structuredClone(job);
    delete clean.metadata.managedFields;
    manifest.textContent = JSON.stringify(clean, null, 2);
    if (drawn === state) return;
    drawn = state;
    const of = `Job ${ns}/${name}`, over = state === 'Complete' || state === 'Failed';
    const suspend = !job.spec.suspend, word = suspend ? 'Suspend' : 'Resume';
    buttons.replaceChildren(
      over ? '' : action(word, `${word} ${of}?${suspend ? ' Its pods end, and do not count as failed.' : ''}`,
        ['patch', 'batch', 'jobs', '', ns, name], () => patch(path, {spec: {suspend}})),
      // Another attempt of a Job of a set its JobSet would end.
      state === 'Failed' && !set ? action('Retry', `Rerun what failed of ${of}?`, ['create', 'batch', 'jobs', 'retry', ns, name], () => post(path + '/retry')) : '',
      action('Delete', `Delete ${of} with its pods and their logs?`, ['delete', 'batch', 'jobs', '', ns, name],
        () => request(path, {method: 'DELETE', body: {kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background'}})));
  }
  // gone shows what the history has of a Job that was deleted.
  async function gone() {
    head.replaceChildren(h('p', {}, 'There is no such Job.'));
    itsEvents('');
    try {
      const {items = []} = await get(`apis/history.jobd.dev/v1/namespaces/${encodeURIComponent(ns)}/jobs?name=${encodeURIComponent(name)}&limit=20`, signal);
      if (job || signal.aborted || !items.length) return;
      head.replaceChildren(badge('Deleted'), h('span', {class: 'faint'}, 'It was deleted; this is what the history has of it. '),
        h('span', {}, 'Its picture as a file: ', h('code', {}, `jobctl report jobs/${name} -n ${ns}`)));
      drawing.replaceChildren(pastJobs(items));
      why.textContent = pods.textContent = '';
    } catch { /* the role may not read it */ }
  }
  let asked = 0;
  const rest = () => { asked ||= setTimeout(() => { asked = 0; if (!signal.aborted) { explain(); listPods(); } }, 1000); };
  explain();
  listPods();
  follow('apis/batch/v1/namespaces/' + encodeURIComponent(ns) + '/jobs', {fieldSelector: 'metadata.name=' + name}, {
    reset: () => {}, put: j => { show(j); rest(); }, remove: () => { head.replaceChildren(badge('Deleted')); buttons.replaceChildren(); },
    state: (live, e) => { status(live, e); if (live && !job) gone(); },
  }, signal);
}

// eventsOf follows the events of an object, and shows them once the function that it returns has been told its UID: those of an earlier
// object of the same name are another's. Without a UID, since there is no such object any more, it shows all of that name.
export function eventsOf(element, signal, ns, fields) {
  const all = new Map();
  let of;
  const draw = later(() => {
    if (of === undefined) return;
    const list = [...all.values()].filter(e => !of || (e.involvedObject.uid ?? of) === of).sort((a, b) => (a.lastTimestamp ?? '') < (b.lastTimestamp ?? '') ? 1 : -1).slice(0, 100);
    element.replaceChildren(table(['When', 'Reason', 'Message', 'Times'], list.map(e => [
      ago(e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp), h('td', {class: e.type === 'Warning' ? 'warns' : ''}, e.reason ?? ''),
      h('td', {class: 'wide'}, e.message ?? ''), e.count > 1 ? e.count : '']), 'No events.'));
  });
  follow(`api/v1/namespaces/${encodeURIComponent(ns)}/events`,
    {fieldSelector: Object.entries(fields).map(([k, v]) => k + '=' + v).join(',')},
    {reset: () => all.clear(), put: e => { all.set(e.metadata.uid, e); draw(); }, remove: e => { all.delete(e.metadata.uid); draw(); },
      state: (live, e) => { if (!live && e?.code) element.textContent = e.message; else draw(); }}, signal);
  return uid => { if (uid !== of) { of = uid; draw(); } };
}
