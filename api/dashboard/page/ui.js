// Pieces of pages. What others have written is only ever set as text.
import {may} from './api.js';
import {moment as exact} from './picture.js';

// h makes an element: h('a', {href: '#/', class: 'x', onclick: f}, 'text', child ...).
export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter(c => c != null && c !== ''));
  return e;
}

// link is an address within the page, of parts that may be anything.
export const link = (...parts) => '#/' + parts.map(encodeURIComponent).join('/');

export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min';
  if (s < 172800) return Math.floor(s / 3600) + ' h';
  return Math.floor(s / 86400) + ' d';
}

// age is how long ago a time is; it goes on while it is looked at.
const age = (time, after) => h('time', {datetime: time, title: moment(time), 'data-after': after}, ageText(time, after));
const ageText = (time, after) => duration((Date.now() - Date.parse(time)) / 1000) + after;
setInterval(() => {
  if (!document.hidden) for (const e of document.querySelectorAll('time')) e.textContent = ageText(e.dateTime, e.dataset.after);
}, 5000);

export const ago = time => time ? age(time, ' ago') : '–';
export const between = (from, to) => !from ? '–' : to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : age(from, '');
export const moment = time => time ? exact(new Date(time)) : '–';

export function bytes(n) {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (n >= size) return +(n / size).toPrecision(3) + ' ' + unit;
  }
  return n + ' B';
}

// quantity reads an amount of the API: 500m, 4Gi, 12n.
export function quantity(text) {
  const [, number, unit] = /^([0-9.eE+-]+?)([a-zA-Z]*)$/.exec(text ?? '0') ?? [0, 0, ''];
  const units = {n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40};
  return Number(number) * (units[unit] ?? 1);
}

// awaits says whether a suspended Job is resumed by jobd, once others have ended or at a time, as Awaits of api/batch does.
export const awaits = ({metadata: {annotations = {}}, spec = {}}) =>
  !!(annotations['jobd.dev/after'] || annotations['jobd.dev/start-at']) && !annotations['jobd.dev/resumed-at'] &&
  ((spec.managedBy ?? 'kubernetes.io/job-controller') === 'kubernetes.io/job-controller' ||
    spec.managedBy.startsWith('jobd.dev/overflow.') && !annotations['jobd.dev/overflowed-at']);

// jobState is a Job's state in a word, as State of api/batch has it (a test in daemon/e2e compares the two), and the reason of
// its end.
export function jobState(job) {
  const {status = {}, spec = {}, metadata} = job;
  const find = (...types) => (status.conditions ?? []).find(c => types.includes(c.type) && c.status === 'True');
  const end = find('Complete', 'Failed');
  if (end) return {state: end.type, reason: end.reason, message: end.message, at: end.lastTransitionTime};
  if (metadata.deletionTimestamp) return {state: 'Terminating'};
  const ending = find('FailureTarget') ?? find('SuccessCriteriaMet');
  if (ending) return {state: ending.type === 'FailureTarget' ? 'Failing' : 'Completing', reason: ending.reason, message: ending.message};
  const held = spec.suspend && awaits(job), pause = find('jobd.dev/Paused')?.reason;
  if (spec.suspend && !held) return {state: 'Suspended'};
  if ('jobd.dev/paused-at' in (metadata.annotations ?? {}) || pause === 'JobPaused' && find('jobd.dev/WindowClosed') && !held) return {state: 'Paused'};
  if (held) return {state: 'Waiting'};
  if (pause === 'Preempted') return {state: 'Preempted'};
  return {state: status.ready > 0 ? 'Running' : 'Waiting'};
}

// setState is a JobSet's state in a word, as State of its package in api has it.
export function setState(set) {
  const {status = {}, spec = {}, metadata} = set, {annotations = {}} = metadata;
  const is = type => (status.conditions ?? []).some(c => c.type === type && c.status === 'True');
  if (metadata.deletionTimestamp) return {state: 'Terminating'};
  if (is('Completed')) return {state: 'Complete'};
  if (is('Failed')) return {state: 'Failed'};
  const ours = (spec.managedBy ?? setController) === setController;
  if (spec.suspend) return {state: ours && annotations['jobd.dev/after'] && !annotations['jobd.dev/resumed-at'] ? 'Waiting' : 'Suspended'};
  if (ours && 'jobd.dev/paused-at' in annotations) return {state: 'Paused'};
  if (is('RestartingJobSet')) return {state: 'Restarting'};
  return {state: (status.replicatedJobsStatus ?? []).some(s => s.ready || s.active || s.succeeded) ? 'Running' : 'Waiting'};
}
const setController = 'jobset.sigs.k8s.io/jobset-controller';

export const badge = state => h('span', {class: 'badge is-' + state.toLowerCase().replace(/[^a-z]/g, '')}, state);

// table is a table of rows of cells. On a phone a row is a few lines, in which each cell but the first has its head before it.
export function table(heads, rows, empty) {
  if (!rows.length) return h('p', {class: 'faint'}, empty);
  return h('div', {class: 'scroll'}, h('table', {},
    h('thead', {}, h('tr', {}, heads.map(t => h('th', {scope: 'col'}, t)))),
    h('tbody', {}, rows.map(cells => h('tr', {}, cells.map((c, i) => {
      const cell = c instanceof Node && c.tagName === 'TD' ? c : h('td', {}, c);
      if (i) cell.dataset.head = heads[i];
      return cell;
    }))))));
}

// bar shows how far a Job is: what has succeeded, runs, and has failed, of what has to succeed.
export function bar({succeeded, failed, ready, completions}) {
  const all = Math.max(completions ?? succeeded + ready, succeeded + ready + failed, 1);
  return h('span', {class: 'bar', 'aria-hidden': 'true'}, [['s', succeeded], ['r', ready], ['f', failed]].map(([state, n]) => {
    const part = h('i', {class: state});
    part.style.width = 100 * n / all + '%';
    return part;
  }));
}

// facts says what the containers of a pod are: their images, commands and requests.
export const facts = ({containers}) => containers.slice(0, 3).flatMap((c, i) => [i ? h('br') : '', ...[
  h('code', {}, c.image), h('code', {class: 'command'}, [...c.command ?? [], ...c.args ?? []].join(' ')),
  Object.entries(c.resources?.requests ?? {}).map(([name, amount]) => `${amount} of ${name}`).join(', '),
].filter(e => e?.textContent ?? e).flatMap((e, j) => j ? [' · ', e] : [e])]);

export const section = (title, ...children) => h('section', {}, h('h2', {}, title), ...children);

export function say(message) {
  const said = document.getElementById('said');
  said.textContent = message;
  said.hidden = !message;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { said.hidden = true; }, 8000);
}

// ask asks a question once; the answer is whether to do it.
export function ask(question, doing) {
  const dialog = document.getElementById('ask');
  document.getElementById('question').textContent = question;
  const yes = document.getElementById('yes'), no = document.getElementById('no');
  yes.textContent = doing;
  return new Promise(done => {
    let answer = false;
    yes.onclick = () => { answer = true; dialog.close(); };
    no.onclick = () => dialog.close();
    dialog.onclose = () => done(answer);
    dialog.showModal();
    no.focus();
  });
}

// action is a button that the person's role may forbid, which its title then says. Without a right whoever sees it may press it.
export function action(label, question, right, run) {
  const button = h('button', {type: 'button', class: 'action', disabled: !!right}, label);
  if (right) may(...right).then(why => {
    button.disabled = !!why;
    if (why) button.title = why;
  }, e => { button.title = e.message; });
  button.onclick = async () => {
    if (!await ask(question, label)) return;
    button.disabled = true;
    try { await run(); say(label + ': done'); } catch (e) { say(label + ': ' + e.message); } finally { button.disabled = false; }
  };
  return button;
}

// reason shows why something is as it is, as "jobctl why" says it.
export const reason = said => [h('p', {}, h('b', {}, said.object.name + ' '), said.message), causes(said.causes)];

function causes(list) {
  return h('ul', {class: 'why'}, (list ?? []).map(c => h('li', {},
    c.object ? h('b', {}, c.object.name + ' ') : '', c.message ?? c.type,
    c.until ? h('span', {class: 'faint'}, ' until ' + moment(c.until)) : '',
    c.log?.length ? h('pre', {}, plain(c.log.join('\n'))) : '',
    c.causes?.length ? causes(c.causes) : '')));
}

// plain removes what terminals interpret, such as colours, and characters that reorder text.
export const plain = text => text
  .replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g, '')
  .replace(/[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]/g, '');

// later runs f soon, and not more often than people can see.
export function later(f) {
  let asked = 0;
  return () => { asked ||= setTimeout(() => { asked = 0; f(); }, 150); };
}

// redraw replaces what an element has, and leaves the focus where it was: on the link, or the button of a row, that is
// there again.
export function redraw(element, ...children) {
  const had = document.activeElement, within = element.contains(had) && had !== element;
  const href = within && had.getAttribute('href');
  element.replaceChildren(...children);
  if (href) [...element.querySelectorAll('a')].find(a => a.getAttribute('href') === href)?.focus({preventScroll: true});
}
