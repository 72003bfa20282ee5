// A pod with its live log.
import {get, follow, podPath} from './api.js';
import {h, link, badge, section, moment, reason, facts} from './ui.js';
import {eventsOf} from './job.js';
import {Log} from './log.js';

export function podPage(main, signal, status, ns, name) {
  const path = podPath(ns, name);
  const head = h('div', {class: 'head'}), said = h('p', {class: 'faint'}), why = h('div', {}, 'Loading…'), events = h('div', {}, 'Loading…'), text = h('div');
  main.replaceChildren(h('h1', {}, h('span', {class: 'faint'}, ns + '/'), name), head, said, section('Log', text), section('Why', why), section('Events', events));
  const log = new Log(text, signal, status);
  let pod = null, asked = 0;
  async function explain() {
    try { why.replaceChildren(...reason(await get(path + '/why', signal))); } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  }
  const itsEvents = eventsOf(events, signal, ns, {'involvedObject.kind': 'Pod', 'involvedObject.name': name});
  function show(object) {
    const first = !pod, job = object.metadata.labels?.['batch.kubernetes.io/job-name'];
    pod = object;
    itsEvents(pod.metadata.uid);
    head.replaceChildren(badge(pod.status?.phase ?? ''), job ? h('a', {href: link('jobs', ns, job)}, 'Job ' + job) : '',
      h('span', {class: 'faint'}, 'created ' + moment(pod.metadata.creationTimestamp)));
    said.replaceChildren(...facts(pod.spec));
    log.show(pod, path);
    asked ||= setTimeout(() => { asked = 0; if (!signal.aborted) explain(); }, first ? 0 : 1000);
  }
  follow(podPath(ns), {fieldSelector: 'metadata.name=' + name}, {
    reset: () => {}, put: show, remove: () => head.replaceChildren(badge('Deleted')),
    state: (live, e) => { status(live, e); if (live && !pod) { head.replaceChildren(h('p', {}, 'There is no such pod.')); itsEvents(''); } },
  }, signal);
}
