// A pod with its live log.
import {get, request, lines, podPath} from './api.js';
import {h, link, badge, section, moment, causes, plain, say} from './ui.js';
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
  async function read() {
    reading?.abort();
    reading = new AbortController();
    const stop = AbortSignal.any([signal, reading.signal]);
    log.replaceChildren();
    pending = [];
    try {
      const answer = await request(`${path}/log?${new URLSearchParams({container: container.value, follow: true, tailLines: kept})}`, {signal: stop, accept: '*/*'});
      status(true);
      for await (const line of lines(answer)) {
        if (stop.aborted) return;
        pending.push(line);
        frame ||= requestAnimationFrame(flush);
      }
    } catch (e) { if (!stop.aborted) { found.textContent = e.message; } }
  }
  async function save() {
    try {
      const answer = await request(`${path}/log?${new URLSearchParams({container: container.value})}`, {accept: '*/*', signal});
      const url = URL.createObjectURL(new Blob([await answer.blob()], {type: 'application/octet-stream'}));
      h('a', {href: url, download: `${name}-${container.value}.log`}).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (e) { say(e.message); }
  }
  (async () => {
    try {
      const pod = await get(path, signal), job = pod.metadata.labels?.['batch.kubernetes.io/job-name'];
      head.replaceChildren(badge(pod.status?.phase ?? ''), job ? h('a', {href: link('jobs', ns, job)}, 'Job ' + job) : '',
        h('span', {class: 'faint'}, 'created ' + moment(pod.metadata.creationTimestamp)));
      container.replaceChildren(...[...pod.spec.containers, ...pod.spec.initContainers ?? []].map(c => h('option', {}, c.name)));
      read();
    } catch (e) { if (!signal.aborted) head.textContent = e.message; return; }
    try {
      const said = await get(path + '/why', signal);
      why.replaceChildren(h('p', {}, said.message), causes(said.causes));
    } catch (e) { if (!signal.aborted) why.textContent = e.message; }
  })();
  eventsOf(events, signal, ns, {'involvedObject.kind': 'Pod', 'involvedObject.name': name});
}
