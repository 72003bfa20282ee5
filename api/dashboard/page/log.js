// The log of a pod, as it is written.
import {request, lines, pause} from './api.js';
import {h, plain, say} from './ui.js';

const kept = 5000, longest = 1 << 16; // lines, and characters of one; the whole log is there to download

// Log shows the log of one pod at a time in an element.
export class Log {
  constructor(element, signal, status) {
    Object.assign(this, {signal, status, pod: null, path: '', pending: [], frame: 0, reading: null});
    this.text = h('pre', {class: 'log', tabindex: 0, 'aria-label': 'Log'});
    this.search = h('input', {type: 'search', id: 'search', placeholder: 'Search the log ( / )', 'aria-label': 'Search the log'});
    this.container = h('select', {'aria-label': 'Container', onchange: () => this.read()});
    this.following = h('input', {type: 'checkbox', checked: true});
    const wrap = h('input', {type: 'checkbox', checked: true, onchange: () => this.text.classList.toggle('nowrap', !wrap.checked)});
    this.found = h('span', {class: 'faint', role: 'status'});
    this.search.oninput = () => { for (const line of this.text.children) this.match(line); this.told(); };
    element.replaceChildren(h('div', {class: 'row tools'}, this.container, this.search, h('label', {}, this.following, ' Follow'),
      h('label', {}, wrap, ' Wrap'), h('button', {type: 'button', onclick: () => this.save()}, 'Download'), this.found), this.text);
  }

  // show takes in what a pod has become, and reads the log of another pod from its beginning.
  show(pod, path) {
    this.pod = pod;
    if (path === this.path) return;
    this.path = path;
    this.container.replaceChildren(...[...pod.spec.containers, ...pod.spec.initContainers ?? []].map(c => h('option', {}, c.name)));
    this.read();
  }

  match(line) { line.hidden = !!this.search.value && !line.textContent.toLowerCase().includes(this.search.value.toLowerCase()); }
  told() {
    this.found.textContent = this.search.value ? `${[...this.text.children].filter(l => !l.hidden).length} of ${this.text.children.length} lines` : '';
  }
  flush() {
    this.frame = 0;
    const batch = document.createDocumentFragment();
    for (const text of this.pending.slice(-kept)) {
      const line = h('span', {class: 'line'});
      line.textContent = plain(text) + '\n';
      this.match(line);
      batch.append(line);
    }
    this.pending = [];
    this.text.append(batch);
    while (this.text.children.length > kept) this.text.firstChild.remove();
    if (this.following.checked) this.text.scrollTop = this.text.scrollHeight;
    if (this.search.value) this.told();
  }
  url(query) { return `${this.path}/log?${new URLSearchParams({container: this.container.value, ...query})}`; }

  // A line is preceded by its time, by which a log goes on after a lost connection: sinceTime is good for a second, so lines that
  // are there already come again.
  async read() {
    const comparable = time => time.replace('Z', '').padEnd(29, '0');
    this.reading?.abort();
    this.reading = new AbortController();
    const stop = AbortSignal.any([this.signal, this.reading.signal]);
    this.text.replaceChildren();
    this.pending = [];
    let last = '', same = 0; // the time of the last line, and how many lines have it
    while (!stop.aborted) {
      try {
        const from = last ? {sinceTime: last.slice(0, 19) + 'Z'} : {tailLines: kept};
        const answer = await request(this.url({follow: true, timestamps: true, ...from}), {signal: stop, accept: '*/*'});
        this.status(true);
        this.found.textContent = '';
        let again = same;
        for await (const line of lines(answer, longest)) {
          if (stop.aborted) return;
          const cut = line.indexOf(' '), time = line.slice(0, cut), order = comparable(time).localeCompare(comparable(last));
          if (last && (order < 0 || order === 0 && again-- > 0)) continue;
          same = order === 0 ? same + 1 : 1;
          last = time;
          this.pending.push(line.slice(cut + 1) + (line.length < longest ? '' : ' … (cut)'));
          this.frame ||= requestAnimationFrame(() => this.flush());
        }
        if (this.ended()) return;
      } catch (e) {
        if (stop.aborted) return;
        this.found.textContent = e.message;
        if (e.code === 401 || e.code === 403 || e.code === 404 || this.ended()) return;
        if (!e.code) this.status(false, e);
      }
      await pause(1000, stop);
    }
  }
  // ended reports whether a container will write no more.
  ended() {
    const {status = {}, spec} = this.pod;
    if (['Succeeded', 'Failed'].includes(status.phase)) return true;
    const all = [...status.containerStatuses ?? [], ...status.initContainerStatuses ?? []];
    return !!all.find(c => c.name === this.container.value)?.state?.terminated && spec.restartPolicy === 'Never';
  }
  async save() {
    try {
      const answer = await request(this.url({}), {accept: '*/*', signal: this.signal});
      const url = URL.createObjectURL(new Blob([await answer.blob()], {type: 'application/octet-stream'}));
      h('a', {href: url, download: `${this.pod.metadata.name}-${this.container.value}.log`}).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (e) { say(e.message); }
  }
}
