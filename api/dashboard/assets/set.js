import {decode, element, names, whole, time} from './picture.js';
// The picture of a JobSet as a graph of its groups, drawn from the answer of GET .../jobsets/NAME/picture (SetPicture of api/picture).
//
//   const picture = new SetPicture(element, {link: job => '#/jobs/...'}); // where a Job is shown; without, nowhere
//   picture.update(data);
//   picture.destroy();

const mostGroups = 24, mostCells = 60; // at once; of more Jobs in a group there is a bar

// toShow returns the groups that are shown where there is no room for all, as GroupsToShow of api/picture does.
export function toShow(groups, room) {
  if (groups.length <= room) return groups;
  const rank = g => g.state === 'Failed' ? 1 : Object.keys(g.counts).length && g.state !== 'Complete' ? 2 : 0;
  const active = groups.flatMap((g, i) => rank(g) ? [i] : []);
  const ranked = groups.map((g, i) => ({g, i, rank: rank(g) || 3 + (active.length ? Math.min(...active.map(a => Math.abs(a - i))) : 0)}));
  return ranked.sort((a, b) => a.rank - b.rank || a.i - b.i).slice(0, room).sort((a, b) => a.i - b.i).map(r => r.g);
}

const words = ['Failed', 'Failing', 'Running', 'Waiting', 'Preempted', 'Paused', 'Suspended', 'Terminating', 'Completing', 'Complete'];
const counted = counts => words.filter(w => counts[w]).map(w => `${whole(counts[w])} ${w}`);
const classOf = state => 'jp-is-' + (state || 'none').toLowerCase().replace(/[^a-z]/g, '');
const svg = (tag, attributes) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
};

export class SetPicture {
  constructor(root, {link} = {}) {
    this.link = link;
    this.all = false;
    this.box = element('div', 'jp');
    this.summary = element('div', 'jp-summary');
    this.graph = element('div', 'jp-set');
    this.folded = element('p', 'jp-more');
    this.box.append(this.summary, this.graph, this.folded);
    root.replaceChildren(this.box);
    this.resized = new ResizeObserver(() => this.arrows());
    this.resized.observe(this.graph);
  }

  destroy() {
    this.resized.disconnect();
    this.box.remove();
  }

  update(data) {
    const {at, ...rest} = data, text = JSON.stringify(rest);
    this.at = at;
    if (text === this.text) return;
    this.text = text;
    this.data = data;
    this.draw();
  }

  draw() {
    const had = this.box.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    this.showSummary();
    const shown = this.all ? this.data.groups : toShow(this.data.groups, mostGroups), layers = new Map();
    this.cards = new Map();
    for (const g of shown) {
      if (!layers.has(g.layer ?? 0)) layers.set(g.layer ?? 0, element('div', 'jp-layer'));
      const card = this.card(g);
      this.cards.set(g.name, card);
      layers.get(g.layer ?? 0).append(card);
    }
    this.edges = svg('svg', {class: 'jp-edges', 'aria-hidden': 'true'});
    this.graph.replaceChildren(this.edges, ...[...layers].sort(([a], [b]) => a - b).map(([, row]) => row));
    this.fold(this.data.groups.filter(g => !shown.includes(g)));
    if (had) [...this.box.querySelectorAll('a')].find(a => a.getAttribute('href') === had)?.focus({preventScroll: true});
    this.arrows();
  }

  showSummary() {
    const d = this.data, counts = {};
    let all = 0, there = 0;
    for (const g of d.groups) {
      all += g.replicas;
      for (const [state, n] of Object.entries(g.counts)) counts[state] = (counts[state] ?? 0) + n, there += n;
    }
    const said = [`${whole(counts.Complete ?? 0)} of ${whole(all)} Jobs succeeded`, ...counted(counts), all > there ? `${whole(all - there)} not there` : ''];
    if (d.restarts) said.push(`attempt ${d.restarts + 1}`);
    if (d.maxRestarts != null) said.push(`${d.counted} of ${d.maxRestarts} restarts`);
    if (d.inOrder) said.push('one group begins after the other (startupPolicy InOrder)');
    if (d.former) said.push(`${whole(d.former)} Jobs of the attempt before have to be gone first`);
    this.summary.replaceChildren(element('span', 'jp-state ' + classOf(d.state), d.state), ...said.filter(Boolean).map(s => element('span', '', s)));
    if (d.ended) this.summary.append(element('span', '', 'ended ' + time(d.ended)));
    if (d.decided) this.summary.append(element('div', 'jp-reason', d.decided));
  }

  card(g) {
    const card = element('div', 'jp-group'), head = element('div', 'jp-head');
    head.append(element('b', '', g.name), element('span', 'jp-state ' + classOf(g.state), g.state || 'not there'),
      element('span', 'jp-count', `${whole(g.counts.Complete ?? 0)} of ${whole(g.replicas)}`));
    head.title = counted(g.counts).join(', ');
    card.append(head, g.replicas > mostCells ? this.bar(g) : this.cells(g));
    for (const a of g.after ?? []) {
      card.append(element('div', a.met ? 'jp-after jp-met' : 'jp-after', a.met ? `✓ ${a.group} ${a.status}` : `waits until all Jobs of ${a.group} are ${a.status}: ${a.has} of ${a.of} are`));
    }
    return card;
  }

  // cells has one for each Job.
  cells(g) {
    const cells = element('div', 'jp-jobs'), states = decode(g.jobs, g.replicas);
    states.forEach((code, i) => {
      const state = String.fromCharCode(code), name = `${this.data.name}-${g.name}-${i}`, there = state in names;
      const cell = element(there && this.link ? 'a' : 'i', 'jp-job jp-' + (there ? state : 'none'));
      cell.title = `${name}: ${there ? names[state] : 'not there'}`;
      if (cell.tagName === 'A') {
        cell.href = this.link(name);
        cell.setAttribute('aria-label', cell.title);
      }
      cells.append(cell);
    });
    return cells;
  }

  // bar shows how many Jobs have each state, and the first of those that failed.
  bar(g) {
    const bar = element('div', 'jp-bar'), counts = new Map(), states = decode(g.jobs, g.replicas);
    for (const code of states) counts.set(code, (counts.get(code) ?? 0) + 1);
    for (const state of 'fbrtspw') {
      const n = counts.get(state.charCodeAt(0));
      if (!n) continue;
      const name = `${this.data.name}-${g.name}-${states.indexOf(state.charCodeAt(0))}`;
      const part = element(this.link ? 'a' : 'i', 'jp-' + state);
      part.style.flexGrow = n;
      part.title = `${whole(n)} ${names[state]}, the first is ${name}`;
      if (this.link) part.href = this.link(name);
      bar.append(part);
    }
    const none = element('i', 'jp-none');
    none.style.flexGrow = counts.get(45) ?? 0;
    bar.append(none);
    return bar;
  }

  fold(hidden) {
    this.folded.hidden = !hidden.length && !this.all;
    const counts = {};
    for (const g of hidden) if (g.state) counts[g.state] = (counts[g.state] ?? 0) + 1;
    const button = element('button', 'jp-unfold', this.all ? 'Show fewer groups' : 'Show all');
    button.type = 'button';
    button.addEventListener('click', () => { this.all = !this.all; this.draw(); });
    this.folded.replaceChildren(hidden.length ? `And ${whole(hidden.length)} more groups: ${counted(counts).join(', ') || 'not there'}. ` : '', button);
  }

  // arrows draws them from where the groups are.
  arrows() {
    if (!this.data) return;
    const {scrollWidth: w, scrollHeight: h} = this.graph;
    this.edges.setAttribute('viewBox', `0 0 ${w} ${h}`);
    this.edges.style.width = w + 'px';
    this.edges.style.height = h + 'px';
    const paths = [];
    this.data.groups.forEach((g, i) => {
      for (const a of g.after ?? []) { // with InOrder each begins after the one before, whichever is waited for
        const from = this.cards.get(this.data.inOrder ? this.data.groups[i - 1].name : a.group), to = this.cards.get(g.name);
        if (!from || !to) continue;
        const x = from.offsetLeft + Math.min(from.offsetWidth / 2, 90), y = from.offsetTop + from.offsetHeight;
        const u = to.offsetLeft + Math.min(to.offsetWidth / 2, 90), v = to.offsetTop, bend = Math.max(8, (v - y) / 2);
        const kind = a.met ? 'jp-edge jp-met' : 'jp-edge';
        paths.push(svg('path', {class: kind, d: `M${x},${y} C${x},${y + bend} ${u},${v - bend} ${u},${v - 5}`}),
          svg('path', {class: kind + ' jp-tip-of', d: `M${u - 4},${v - 7} L${u + 4},${v - 7} L${u},${v} Z`}));
      }
    });
    this.edges.replaceChildren(...paths);
  }
}
