// The picture of a Job, drawn from the answer of GET .../jobs/NAME/picture (Go package api/picture describes it).
//
//   const picture = new Picture(element, {onSelect: index => ...});
//   picture.update(data);    // a whole picture, or one with delta: true after it
//   picture.select(4711);    // a cell, or -1
//   picture.detail;          // an element beside the cells, for what is known of the chosen one
//   picture.destroy();
//
// What others have written (names, lines of logs) is only ever set as text. Nothing is fetched, and no style is inline.

const order = ['f', 'b', 'r', 't', 's', 'p', 'w']; // what shows first where several share a pixel
const ends = {ok: 'complete', any: 'end', failed: 'fail'}; // what a Job waits for, see Link of api/picture
const names = {
  w: 'waiting', r: 'running', s: 'succeeded', f: 'failed', b: 'to be retried', p: 'suspended', t: 'stopped',
};

// Colours that people of all kinds of sight can tell apart (Okabe and Ito), and that differ in brightness.
const palettes = {
  light: {
    w: '#e4e7eb', r: '#56b4e9', s: '#009e73', f: '#d55e00', b: '#e69f00', p: '#cc79a7', t: '#7a828c',
    ground: '#ffffff', ink: '#1c2126', faint: '#69727d', line: '#d5dae0', mark: '#000000', dot: '#ffffff',
  },
  dark: {
    w: '#2d343c', r: '#56b4e9', s: '#00a77a', f: '#e8691a', b: '#f0b02e', p: '#d68bb3', t: '#808a95',
    ground: '#14181c', ink: '#e4e8ec', faint: '#98a2ad', line: '#353d46', mark: '#ffffff', dot: '#ffffff',
  },
};

const details = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.~!*()@$+,';
const detailOf = new Map([...details].map((symbol, i) => [symbol.charCodeAt(0), i]));

// decode reads runs ("ws3" is "wsss") into an array of n character codes.
export function decode(runs, n) {
  const out = new Uint8Array(n);
  let at = 0;
  for (let i = 0; i < runs.length && at < n;) {
    const symbol = runs.charCodeAt(i++);
    let count = 0, digits = false;
    for (let c; i < runs.length && (c = runs.charCodeAt(i)) >= 48 && c <= 57; i++) {
      count = count * 10 + c - 48;
      digits = true;
    }
    if (!digits) count = 1;
    out.fill(symbol, at, Math.min(n, at + count));
    at += count;
  }
  return out;
}

// ranges lists what "3,7-9" names, at most max numbers.
export function ranges(text, max = 1000) {
  const out = [];
  for (const part of text ? text.split(',') : []) {
    const [first, last = first] = part.split('-').map(Number);
    for (let i = first; i <= last && out.length < max; i++) out.push(i);
  }
  return out;
}

// forecasts says when a Job is expected to start or, if it runs, to end, and what that is based on.
export function forecasts(forecast, now) {
  const [what, expected] = forecast.starts ? ['start', forecast.starts] : ['end', forecast.ends];
  if (!expected) return forecast.unknown ? [`start unknown: ${forecast.unknown}`] : [];
  const at = new Date(expected.at);
  const today = at.toDateString() === new Date(now).toDateString();
  const clock = (today ? '' : at.toLocaleDateString('en', {month: 'short', day: 'numeric'}) + ' ') + hours(at).slice(0, 5);
  const sure = { // as Sure of api/forecast says
    StartTime: 'jobd.dev/start-at',
    Window: 'when its window opens',
    Deadline: 'by deadline',
    Rate: `at the rate of ${expected.runs} so far`,
    History: expected.runs === 1 ? '1 earlier run' : `${expected.runs} earlier runs`,
  }[expected.basis];
  return [`${what} expected ${expected.basis === 'Deadline' ? 'by' : 'at'} ${clock} (${sure})`];
}

export function duration(seconds) {
  if (seconds == null || !isFinite(seconds)) return '–';
  if (seconds < 1 && seconds > 0) return Math.round(seconds * 1000) + ' ms';
  const s = Math.round(seconds);
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min' + (s % 60 && s < 600 ? ' ' + s % 60 + ' s' : '');
  if (s < 172800) return Math.floor(s / 3600) + ' h' + (Math.floor(s % 3600 / 60) ? ' ' + Math.floor(s % 3600 / 60) + ' min' : '');
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

export function bytes(n) {
  for (const [unit, size] of [['Gi', 2 ** 30], ['Mi', 2 ** 20], ['Ki', 2 ** 10]]) {
    if (n >= size) return +(n / size).toPrecision(3) + ' ' + unit;
  }
  return n + ' B';
}

const processors = n => n < 1 ? Math.round(n * 1000) + 'm' : String(+n.toPrecision(3));
const whole = n => n.toLocaleString('en');
const two = n => String(n).padStart(2, '0');
// hours and moment are times as jobctl has them, of 24 hours whatever the language of the browser: 17:48:03, 2026-11-30 17:48:03.
const hours = at => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
export const moment = at => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${hours(at)}`;
const time = seconds => moment(new Date(seconds * 1000));

function element(tag, name, text) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  if (text != null) e.textContent = text;
  return e;
}

// mix returns a colour between two: of a at 0, of b at 1.
function mix(a, b, share) {
  const part = (s, i) => parseInt(s.slice(i, i + 2), 16);
  return '#' + [1, 3, 5].map(i => Math.round(part(a, i) + (part(b, i) - part(a, i)) * share).toString(16).padStart(2, '0')).join('');
}

export class Picture {
  constructor(root, {onSelect = () => {}} = {}) {
    this.root = root;
    this.onSelect = onSelect;
    this.data = null;
    this.selected = -1;
    this.hovered = -1;
    this.states = new Uint8Array(0);
    this.details = new Uint8Array(0);
    this.build();
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    this.repaint = () => this.draw();
    this.dark.addEventListener('change', this.repaint);
    let width = 0;
    this.resized = new ResizeObserver(() => { // its own change of height is none of its business
      if (this.root.clientWidth !== width) { width = this.root.clientWidth; this.draw(); }
    });
    this.resized.observe(root);
  }

  destroy() {
    this.dark.removeEventListener('change', this.repaint);
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
    this.box.remove();
  }

  build() {
    const box = this.box = element('div', 'jp');
    this.summary = element('div', 'jp-summary');
    this.legend = element('div', 'jp-legend');
    this.grid = element('canvas', 'jp-grid');
    this.grid.tabIndex = 0;
    this.grid.setAttribute('role', 'application');
    this.grid.setAttribute('aria-roledescription', 'grid of cells');
    this.tip = element('div', 'jp-tip');
    this.tip.setAttribute('aria-live', 'polite');
    this.failed = element('section', 'jp-part');
    this.failed.append(element('h3', '', 'Failures'));
    this.failedBody = element('div', 'jp-failures');
    this.failed.append(this.failedBody);
    const stream = this.streamPart = element('section', 'jp-part');
    this.streamTitle = element('h3', '', 'Pods over time');
    this.stream = element('canvas', 'jp-stream');
    stream.append(this.streamTitle, this.stream);
    this.bars = element('section', 'jp-part jp-bars');
    const gridPart = element('div', 'jp-gridbox');
    gridPart.append(this.grid);
    this.detail = element('div', 'jp-detail'); // for whoever shows more of the chosen cell
    this.far = element('section', 'jp-part');
    this.far.hidden = true;
    box.append(this.summary, this.legend, gridPart, this.tip, this.detail, this.far, this.failed, stream, this.bars);
    this.root.append(box);

    const pointed = e => { // offsetX is rounded, and a cell may be a pixel
      const box = this.grid.getBoundingClientRect();
      return this.cellAt(e.clientX - box.left, e.clientY - box.top);
    };
    this.grid.addEventListener('mousemove', e => this.hover(pointed(e)));
    this.grid.addEventListener('mouseleave', () => this.hover(-1));
    this.grid.addEventListener('click', e => {
      const cell = pointed(e);
      if (cell >= 0) this.choose(cell);
    });
    this.grid.addEventListener('keydown', e => this.key(e));
    this.grid.addEventListener('focus', () => { if (this.selected < 0 && this.data) this.select(this.first('f')); });
    this.stream.addEventListener('mousemove', e => this.hover(this.taskAt(e.offsetX, e.offsetY)));
    this.stream.addEventListener('mouseleave', () => this.hover(-1));
    this.stream.addEventListener('click', e => {
      const cell = this.taskAt(e.offsetX, e.offsetY);
      if (cell >= 0) this.choose(cell);
    });
  }

  // update takes in a picture, or what has changed since the last one.
  update(data) {
    if (!data.delta) this.data = {};
    if (!this.data) return;
    for (const part of ['job', 'stream', 'histograms', 'failures', 'progress']) {
      if (data[part]) this.data[part] = data[part];
    }
    this.data.at = data.at;
    if (data.cells) {
      this.data.cells = data.cells;
      this.states = decode(data.cells.states, data.cells.count);
      this.details = decode(data.cells.details, data.cells.count);
    }
    if (data.changed) {
      const runs = data.changed.cells;
      let n = 0;
      for (let i = 1; i < runs.length; i += 2) n += runs[i];
      const states = decode(data.changed.states, n), symbols = decode(data.changed.details, n);
      for (let i = 0, at = 0; i < runs.length; at += runs[i + 1], i += 2) {
        this.states.set(states.subarray(at, at + runs[i + 1]), runs[i]);
        this.details.set(symbols.subarray(at, at + runs[i + 1]), runs[i]);
      }
    }
    if (this.selected >= this.states.length) this.selected = -1;
    if (data.job) this.showJob();
    if (data.failures) this.showFailures();
    if (data.progress || !data.delta) this.showProgress();
    if (data.histograms) this.showHistograms();
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  // select marks a cell; -1 marks none. It does not call onSelect.
  select(cell) {
    this.selected = cell >= 0 && cell < this.states.length ? cell : -1;
    this.hover(-1);
    this.draw();
  }

  choose(cell) {
    this.select(cell);
    this.onSelect(cell);
  }

  // describe returns what is known of a cell, as a sentence without its end.
  describe(cell) {
    const {cells, job} = this.data;
    const state = String.fromCharCode(this.states[cell]);
    const detail = detailOf.get(this.details[cell]) || 0, level = detail % 16, retries = detail >> 4;
    const label = cells.per > 1 ? `Indexes ${whole(cell * cells.per)} to ${whole((cell + 1) * cells.per - 1)}`
      : `${job.indexed ? 'Index' : 'Pod'} ${cell}${this.valuesOf(cell)}`;
    let text = `${label}: ${names[state] || state}`;
    if (level > 0) {
      const bound = l => Math.expm1(l * Math.log1p(cells.longest) / 14);
      text += level === 1 ? ', less than ' + duration(Math.max(1, bound(0.5))) : ', about ' + duration(bound(level - 1));
    }
    if (retries > 0) text += `, ${retries === 3 ? '3 or more retries' : retries === 1 ? '1 retry' : retries + ' retries'}`;
    const far = (this.data.progress?.pods || []).find(p => p.cell === cell && job.indexed);
    if (far) text += `, ${far.percent}% ${far.words || ''}`.trimEnd();
    return text;
  }

  // valuesOf returns the values of a cell's index in parentheses, if it has any.
  valuesOf(cell) {
    const {values} = this.data.cells;
    return values && values[cell] ? ` (${values[cell]})` : '';
  }

  first(state) {
    const at = this.states.indexOf(state.charCodeAt(0));
    return at >= 0 ? at : 0;
  }

  hover(cell) {
    if (cell !== this.hovered) {
      this.hovered = cell;
      this.drawMarks();
    }
    const shown = cell >= 0 ? cell : this.selected;
    this.tip.textContent = shown >= 0 && this.data ? this.describe(shown)
      : !this.states.length ? ''
        : matchMedia('(hover: none)').matches ? 'Touch a cell to see what has run for it.'
          : 'Point at a cell, or use the arrow keys: Enter shows it, f goes to the next failure.';
  }

  key(e) {
    if (!this.data || e.ctrlKey || e.metaKey || e.altKey) return;
    const n = this.states.length, at = Math.max(0, this.selected), row = this.columns;
    let to;
    switch (e.key) {
      case 'ArrowRight': to = at + 1; break;
      case 'ArrowLeft': to = at - 1; break;
      case 'ArrowDown': to = at + row; break;
      case 'ArrowUp': to = at - row; break;
      case 'PageDown': to = Math.min(n - 1, at + 10 * row); break;
      case 'PageUp': to = Math.max(0, at - 10 * row); break;
      case 'Home': to = 0; break;
      case 'End': to = n - 1; break;
      case 'f': case 'F': {
        const failed = 'f'.charCodeAt(0);
        to = e.shiftKey ? this.states.lastIndexOf(failed, at - 1) : this.states.indexOf(failed, at + 1);
        if (to < 0 || at === 0 && e.shiftKey) to = e.shiftKey ? this.states.lastIndexOf(failed) : this.states.indexOf(failed);
        break;
      }
      case 'Enter': case ' ': if (this.selected >= 0) this.onSelect(this.selected); e.preventDefault(); return;
      case 'Escape': this.select(-1); return;
      default: return;
    }
    e.preventDefault();
    if (to >= 0 && to < n) this.select(to);
  }

  colours() { return palettes[this.dark.matches ? 'dark' : 'light']; }

  showJob() {
    const {job} = this.data;
    this.summary.replaceChildren();
    const state = element('span', 'jp-state jp-is-' + job.state.toLowerCase().replace(/[^a-z]/g, ''), job.state);
    this.summary.append(state);
    const end = job.ended || this.data.at / 1000;
    const facts = [];
    const done = job.counts.s || 0;
    facts.push(job.completions ? `${whole(done)} of ${whole(job.completions)} succeeded` : `${whole(done)} succeeded`);
    if (job.started) facts.push((job.ended ? 'took ' : 'for ') + duration(end - job.started));
    if (job.retries) facts.push(job.retries === 1 ? '1 retry' : `${whole(job.retries)} retries`);
    if (job.cpuSeconds) facts.push(`${duration(job.cpuSeconds)} of processor time`);
    if (!job.ended && job.forecast) facts.push(...forecasts(job.forecast, this.data.at));
    for (const fact of facts) this.summary.append(element('span', 'jp-fact', fact));
    if (job.reason || job.message) {
      this.summary.append(element('div', 'jp-reason', [job.reason, job.message].filter(Boolean).join(': ')));
    }
    if (job.after) {
      const chain = element('ul', 'jp-chain');
      for (const l of job.after) {
        const item = element('li', l.met ? 'jp-met' : '', `${l.name} to ${ends[l.when] ?? l.when}: ${l.state || 'there is none yet'}`);
        item.style.marginLeft = `${1.2 * (l.depth || 0)}em`;
        chain.append(item);
      }
      this.summary.append(element('div', 'jp-reason', 'It waits for'), chain);
    }
    if (job.unknown) this.summary.append(element('div', 'jp-reason', `Of ${whole(job.unknown)} pods nothing is known any more.`));
    this.legend.replaceChildren();
    for (const s of order) {
      if (!job.counts[s]) continue;
      const item = element(s === 'f' || s === 'b' || s === 'r' ? 'button' : 'span', 'jp-key');
      item.append(element('i', 'jp-swatch jp-' + s), element('b', '', whole(job.counts[s])), element('span', '', names[s]));
      if (item.tagName === 'BUTTON') {
        item.type = 'button';
        item.title = 'Go to the first';
        item.addEventListener('click', () => { this.grid.focus(); this.choose(this.first(s)); });
      }
      this.legend.append(item);
    }
    const scale = element('span', 'jp-scale');
    scale.append(element('span', '', 'short'), element('i', 'jp-ramp'), element('span', '', 'long'),
      element('i', 'jp-swatch jp-s jp-dotted'), element('span', '', 'retried'));
    this.legend.append(scale);
    this.grid.setAttribute('aria-label', `${whole(this.states.length)} ${job.indexed ? 'indexes' : 'pods'} of Job ${job.name}`);
  }

  showFailures() {
    const {failures} = this.data;
    this.failed.hidden = !failures.groups.length;
    this.failedBody.replaceChildren();
    if (!failures.groups.length) return;
    const table = element('table'), head = element('tr');
    const titles = ['exit code', 'pods', this.data.job.indexed ? 'indexes' : 'cells', 'last line'];
    for (const title of titles) head.append(element('th', '', title));
    const top = element('thead'), body = element('tbody');
    top.append(head);
    for (const group of failures.groups) {
      const row = element('tr');
      const code = element('td', 'jp-code', group.exitCode != null ? String(group.exitCode) : '–');
      if (group.reason && group.reason !== 'Error') code.append(' ', element('small', '', group.reason));
      const cells = element('td', 'jp-cells'), all = ranges(group.cells, 13);
      for (const cell of all.slice(0, 12)) {
        const button = element('button', 'jp-cell', String(cell));
        button.type = 'button';
        button.title = this.valuesOf(cell).trim();
        button.addEventListener('click', () => this.choose(cell));
        cells.append(button);
      }
      if (all.length > 12 || group.more) cells.append('…');
      else if (all.length === 1) cells.append(element('small', '', this.valuesOf(all[0])));
      row.append(code, element('td', '', whole(group.pods) + (group.final === 0 ? ' (retried)' : '')), cells,
        element('td', 'jp-line', group.line || '–'));
      titles.forEach((title, i) => { row.children[i].dataset.head = title; }); // which the page shows where there is no room for the head
      body.append(row);
    }
    table.append(top, body);
    this.failedBody.append(table);
    if (failures.more) this.failedBody.append(element('p', 'jp-more', `And ${whole(failures.more)} in other ways.`));
  }

  // showProgress lists how far pods that run say they are.
  showProgress() {
    const {progress, job} = this.data, pods = progress?.pods || [];
    this.far.hidden = !pods.length;
    this.far.replaceChildren();
    for (const p of pods) {
      const row = element('div', 'jp-far'), bar = element('progress');
      bar.max = 100;
      bar.value = p.percent;
      bar.setAttribute('aria-label', p.pod);
      row.append(element('span', '', job.indexed ? `Index ${p.cell}${this.valuesOf(p.cell)}` : p.pod), bar, element('span', '', `${p.percent}% ${p.words || ''}`));
      this.far.append(row);
    }
  }

  showHistograms() {
    const {histograms} = this.data;
    this.bars.replaceChildren();
    this.charts = [];
    for (const [title, of, format] of [['Duration', histograms.duration, duration], ['Processors', histograms.cpu, processors],
      ['Peak memory', histograms.memory, bytes]]) {
      if (!of) continue;
      const figure = element('figure');
      const canvas = element('canvas', 'jp-histogram');
      const words = [`median ${format(of.median)}`, `90 % below ${format(of.p90)}`, `most ${format(of.most)}`];
      if (of.request) words.push(`request ${format(of.request)}`);
      if (of.limit) words.push(`limit ${format(of.limit)}`);
      const caption = element('figcaption', '', words.join(' · '));
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `${title}: ${words.join(', ')}`);
      figure.append(element('h3', '', title), canvas, caption);
      this.bars.append(figure);
      this.charts.push({canvas, of, format});
    }
    this.bars.hidden = !this.charts.length;
  }

  // open makes a canvas as large as its box, in the pixels of the screen, and returns what draws on it.
  open(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.setProperty('height', height + 'px'); // by script: the style sheet's rule allows that
    }
    const c = canvas.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    return {c, width, ratio};
  }

  draw() {
    if (!this.data || !this.data.cells || !this.root.clientWidth) return;
    this.drawGrid();
    this.drawStream();
    this.drawHistograms();
    this.hover(this.hovered);
  }

  // layout chooses the largest cells with which all fit.
  layout(n, width) {
    const room = Math.min(520, Math.max(160, window.innerHeight * 0.5));
    let size = Math.min(26, Math.floor(Math.sqrt(width * room / Math.max(1, n))));
    while (size > 1 && Math.ceil(n / Math.floor(width / size)) * size > room) size--;
    size = Math.max(1, size);
    if (size === 1) size = Math.max(1 / (window.devicePixelRatio || 1), 1);
    return {size, columns: Math.max(1, Math.min(n, Math.floor(width / size)))};
  }

  drawGrid() {
    const n = this.states.length, width = this.grid.parentElement.clientWidth;
    const {size, columns} = this.layout(n, width);
    this.size = size;
    this.columns = columns;
    const height = Math.max(size, Math.ceil(n / columns) * size);
    const {c, ratio} = this.open(this.grid, height);
    const colour = this.colours();
    const gap = size >= 14 ? 2 : size >= 5 ? 1 : 0;
    const shades = {};
    for (const s of order) {
      // Waiting cells have no duration. The others are fainter the shorter they took, and never as faint as the ground.
      shades[s.charCodeAt(0)] = Array.from({length: 16}, (_, level) =>
        'sft'.includes(s) && level > 0 ? mix(colour.ground, colour[s], (s === 'f' ? 0.85 : 0.42) + (s === 'f' ? 0.15 : 0.58) * (level - 1) / 14)
          : colour[s]);
    }
    if (gap === 0) { // too many for one call each: their pixels are set at once
      const image = c.createImageData(this.grid.width, this.grid.height), pixels = new Uint32Array(image.data.buffer);
      const rgba = {};
      for (const s in shades) {
        rgba[s] = shades[s].map(h => 0xff000000 | parseInt(h.slice(5, 7), 16) << 16 | parseInt(h.slice(3, 5), 16) << 8 | parseInt(h.slice(1, 3), 16));
      }
      const side = size * ratio;
      for (let i = 0; i < n; i++) {
        const value = rgba[this.states[i]]?.[(detailOf.get(this.details[i]) || 0) % 16] ?? 0;
        const x = i % columns, y = Math.floor(i / columns);
        const x1 = Math.round((x + 1) * side), y1 = Math.round((y + 1) * side);
        for (let py = Math.round(y * side); py < y1; py++) pixels.fill(value, py * image.width + Math.round(x * side), py * image.width + x1);
      }
      c.putImageData(image, 0, 0);
    } else {
      for (let i = 0; i < n; i++) {
        const detail = detailOf.get(this.details[i]) || 0;
        const x = i % columns * size, y = Math.floor(i / columns) * size;
        c.fillStyle = shades[this.states[i]]?.[detail % 16] ?? colour.w;
        c.fillRect(x, y, size - gap, size - gap);
        if (detail >= 16 && size >= 5) {
          c.fillStyle = colour.dot;
          const d = Math.max(1, size / 7);
          c.beginPath();
          c.arc(x + (size - gap) / 2, y + (size - gap) / 2, d, 0, 7);
          c.fill();
        }
      }
    }
    if (size < 10) { // a failure must be seen even where a cell is a pixel
      const failed = 'f'.charCodeAt(0), more = Math.ceil((10 - size) / 3);
      let shown = 0;
      c.fillStyle = colour.f;
      for (let i = this.states.indexOf(failed); i >= 0 && shown < 300; i = this.states.indexOf(failed, i + 1), shown++) {
        c.fillRect(i % columns * size - more, Math.floor(i / columns) * size - more, size - gap + 2 * more, size - gap + 2 * more);
      }
    }
    // What is marked is drawn over it, and taken away again.
    this.under = document.createElement('canvas');
    this.under.width = this.grid.width;
    this.under.height = this.grid.height;
    this.under.getContext('2d').drawImage(this.grid, 0, 0);
    this.drawMarks();
  }

  drawMarks() {
    if (!this.under || !this.size) return;
    const c = this.grid.getContext('2d'), colour = this.colours(), ratio = window.devicePixelRatio || 1;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.grid.width, this.grid.height);
    c.drawImage(this.under, 0, 0);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const side = Math.max(this.size, 7);
    for (const [cell, width] of [[this.hovered, 1], [this.selected, 2]]) {
      if (cell < 0) continue;
      const x = cell % this.columns * this.size + (this.size - side) / 2, y = Math.floor(cell / this.columns) * this.size + (this.size - side) / 2;
      c.strokeStyle = colour.ground;
      c.lineWidth = width + 2;
      c.strokeRect(x - 1, y - 1, side + 1, side + 1);
      c.strokeStyle = colour.mark;
      c.lineWidth = width;
      c.strokeRect(x - 1, y - 1, side + 1, side + 1);
    }
  }

  cellAt(x, y) {
    if (!this.size) return -1;
    const column = Math.floor(x / this.size), row = Math.floor(y / this.size);
    const cell = row * this.columns + column;
    return column >= 0 && column < this.columns && row >= 0 && cell < this.states.length ? cell : -1;
  }

  drawStream() {
    const {stream} = this.data;
    this.streamPart.hidden = !stream || !stream.slots;
    this.boxes = [];
    if (this.streamPart.hidden) return;
    const shownRows = stream.rows ? stream.rows.length : stream.slots;
    const row = Math.max(2, Math.min(18, Math.floor(200 / shownRows))), axis = 18, height = shownRows * row + axis;
    const {c, width} = this.open(this.stream, height), colour = this.colours();
    const length = Math.max(1, stream.to - stream.from);
    this.streamTitle.textContent = `Pods over time: up to ${whole(stream.slots)} at once`;
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'top';
    const ticks = Math.max(1, Math.min(6, Math.floor(width / 120)));
    for (let i = 0; i <= ticks; i++) {
      const x = Math.round(i / ticks * (width - 1));
      c.fillStyle = colour.line;
      c.fillRect(x, 0, 1, height - axis + 3);
      c.fillStyle = colour.faint;
      c.textAlign = i === 0 ? 'left' : i === ticks ? 'right' : 'center';
      c.fillText(i === 0 ? hours(new Date(stream.from * 1000)) : '+' + duration(length * i / ticks), x, height - axis + 5);
    }
    const gap = row >= 5 ? 1 : 0;
    if (stream.rows) {
      stream.rows.forEach((runs, y) => {
        const states = decode(runs, stream.columns);
        for (let x = 0; x < states.length;) {
          let end = x + 1;
          while (end < states.length && states[end] === states[x]) end++;
          const s = String.fromCharCode(states[x]);
          if (s !== '-' && colour[s]) {
            c.fillStyle = colour[s];
            c.fillRect(x / stream.columns * width, y * row, (end - x) / stream.columns * width, row - gap);
          }
          x = end;
        }
      });
      return;
    }
    const t = stream.tasks || [];
    for (let i = 0; i < t.length; i += 5) {
      const x = t[i + 1] / length * width, w = Math.max(2, t[i + 2] / length * width - 1), y = t[i] * row;
      c.fillStyle = colour[String.fromCharCode(t[i + 4])] || colour.w;
      c.fillRect(x, y, w, row - gap);
      this.boxes.push([x, y, w, row, t[i + 3]]);
    }
  }

  taskAt(x, y) {
    for (const [left, top, width, height, cell] of this.boxes || []) {
      if (x >= left && x <= left + width && y >= top && y < top + height && cell < this.states.length) return cell;
    }
    return -1;
  }

  drawHistograms() {
    const colour = this.colours();
    for (const {canvas, of, format} of this.charts || []) {
      const height = 96, axis = 16, {c, width} = this.open(canvas, height);
      const top = Math.max(of.counts.length * of.width, (of.request || 0) * 1.05, (of.limit || 0) * 1.05);
      const most = Math.max(...of.counts), x = v => v / top * width;
      c.fillStyle = colour.s;
      of.counts.forEach((count, i) => {
        if (!count) return;
        const h = Math.max(2, count / most * (height - axis - 14));
        c.fillRect(x(i * of.width), height - axis - h, Math.max(1, x(of.width) - 1), h);
      });
      c.fillStyle = colour.line;
      c.fillRect(0, height - axis, width, 1);
      c.font = '11px system-ui, sans-serif';
      c.textBaseline = 'top';
      c.fillStyle = colour.faint;
      c.textAlign = 'left';
      c.fillText('0', 0, height - axis + 4);
      c.textAlign = 'right';
      c.fillText(format(top), width, height - axis + 4);
      const same = of.request && of.request === of.limit;
      for (const [name, value, ink] of [['request', same ? 0 : of.request, colour.r], [same ? 'request and limit' : 'limit', of.limit, colour.f]]) {
        if (!value) continue;
        c.fillStyle = ink;
        c.fillRect(Math.min(width - 2, x(value)), 0, 2, height - axis);
        c.fillStyle = colour.ink;
        c.textAlign = x(value) > width / 2 ? 'right' : 'left';
        c.fillText(name, x(value) + (x(value) > width / 2 ? -5 : 6), 0);
      }
    }
  }
}

export {element, names, time, whole};
