// A pod with its live log.
import {get, request, lines, follow, pause, podPath} from './api.js';
import {h, link, badge, section, moment, reason, plain, say} from './ui.js';
import {eventsOf} from './job.js';

const kept = 5000; // lines; the whole log is there to download

export function podPage(main, signal, status, ns, name) {
  const path = podPath(ns, name);
  const head = h('div', {class: 'head'}), why = h('div'), events = h('div');
  const log = h('pre', {class: 'log', tabindex: 0, 'aria-label': 'Log'});
  const search = h('input', {type: 'search', id: 'search', placeholder: 'Search the log ( / )', 'aria-label': 'Search the log'});
  const container = h('select', {'aria-label': 'Container'}), following = h('input', {type: 'checkbox', checked: true}),
    wrap = h('input', {type: 'checkbox', checked: true}), found = h('span', {class: 'faint', role: 'status'});
  const download = h('button', {type: 'button', onclick: save}, 'Download');
  main.replaceChildren(h('h1', {}, h('span', {class: 'faint'}, ns + '/'), name), head, section('Log',
    h('div', {class: 'row tools'}, container, search, h('label', {}, following, ' Follow'), h('label', {}, wrap, ' Wrap'), download, found), log),
  section('Why', why), section('Events', events));
  wrap.onchange = () => log.classList.toggle('nowrap', !wrap.checked);
  search.oninput = () => { for (const line of log.children) match(line); told(); };
  container.onchange = read;

  function match(line) { line.hidden = !!search.value && !line.textContent.toLowerCase().includes(search.value.toLowerCase()); }
  function told() {
    found.textContent = search.value ? `${[...log.children].filter(l => !l.hidden).length} of ${log.children.length} lines` : '';
  }
  let pending = [], frame = 0, reading = null;
  function flush() {
    frame = 0;
    const batch = document.createDocumentFragment();
    for (const text of pending.slice(-kept)) {
      const line = h('span', {class: 'line'});
      line.textContent = plain(text) + '\n';
      match(line);
      batch.append(line);
    }
    pending = [];
    log.append(batch);
    while (log.children.length > kept) log.firstChild.remove();
    if (following.checked) log.scrollTop = log.scrollHeight;
    if (search.value) told();
  }
  // A line is preceded by its time, by which a log goes on after a lost connection: sinceTime is good for a second, so lines that
  // are there already come again.
  const comparable = time => time.replace('Z', '').padEnd(29, '0');
  async function read() {
    reading?.abort();
    reading = new AbortController();
    const stop = AbortSignal.any([signal, reading.signal]);
    log.replaceChildren();
    pending = [];
    let last = '', same = 0; // the time of the last line, and how many lines have it
    while (!stop.aborted) {
      try {
        const from = last ? {sinceTime: last.slice(0, 19) + 'Z'} : {tailLines: kept};
        const answer = await request(`${path}/log?${new URLSearchParams({container: container.value, follow: true, timestamps: true, ...from})}`,
          {signal: stop, accept: '*/*'});
        status(true);
        found.textContent = '';
        let again = same;
        for await (const line of lines(answer)) {
          if (stop.aborted) return;
          const cut = line.indexOf(' '), time = line.slice(0, cut), order = comparable(time).localeCompare(comparable(last));
          if (last && (order < 0 || order === 0 && again-- > 0)) continue;
          same = order === 0 ? same + 1 : 1;
          last = time;
          pending.push(line.slice(cut + 1));
          frame ||= requestAnimationFrame(flush);
        }
        if (ended()) return;
      } catch (e) {
        if (stop.aborted) return;
        found.textContent = e.message;
        if (e.code === 401 || e.code === 403 || e.code === 404 || ended()) return;
        if (!e.code) status(false, e);
      }
      await pause(1000, stop);
    }
  }
  // ended reports whether a container will write no more.
  function ended() {
    if (['Succeeded', 'Failed'].includes(pod?.status?.phase)) return true;
    const all = [...pod?.status?.containerStatuses ?? [], ...pod?.status?.initContainerStatuses ?? []];
    return !!all.find(c => c.name === container.value)?.state?.terminated && pod.spec.restartPolicy === 'Never';
  }
  async function save() {
    try {
      const answer = await request(`${path}/log?${new URLSearchParams({container: container.value})}`, {accept: '*/*', signal});
      const url = URL.createObjectURL(new Blob([await answer.blob()], {type: 'application/octet-stream'}));
      h('a', {href: url, download: `${name}-${container.value}.log`}).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (e) { say(e.message); }
  }
  let pod = null, asked = 0;
  async function explain() {
    try { why.replaceChildren(...reason(await get(path + '/why', signal))); } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  }
  function show(object) {
    const first = !pod, job = object.metadata.labels?.['batch.kubernetes.io/job-name'];
    pod = object;
    head.replaceChildren(badge(pod.status?.phase ?? ''), job ? h('a', {href: link('jobs', ns, job)}, 'Job ' + job) : '',
      h('span', {class: 'faint'}, 'created ' + moment(pod.metadata.creationTimestamp)));
    if (first) {
      container.replaceChildren(...[...pod.spec.containers, ...pod.spec.initContainers ?? []].map(c => h('option', {}, c.name)));
      read();
    }
    asked ||= setTimeout(() => { asked = 0; if (!signal.aborted) explain(); }, first ? 0 : 1000);
  }
  follow(podPath(ns), {fieldSelector: 'metadata.name=' + name}, {
    reset: () => {}, put: show, remove: () => head.replaceChildren(badge('Deleted')),
    state: (live, e) => { status(live, e); if (live && !pod) head.replaceChildren(h('p', {}, 'There is no such pod.')); },
  }, signal);
  eventsOf(events, signal, ns, {'involvedObject.kind': 'Pod', 'involvedObject.name': name});
}
