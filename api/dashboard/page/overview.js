// The overview: what runs and waits, the machine, the CronJobs.
import {get, follow, every, cronPath, jobPath} from './api.js';
import {strip, overdue, cronActions, runsOf, nextRun} from './cronjob.js';
import {namespace, choose, readable, of} from './namespace.js';
import {h, link, ago, between, bytes, quantity, jobState, setState, badge, bar, table, section, later, redraw} from './ui.js';
import {forecasts} from './picture.js';

const shown = 200; // rows; thousands would only slow the page down
const explained = 30; // Jobs whose reasons, and CronJobs whose runs, are asked for
const past = 12; // runs of a CronJob
const rank = {Running: 0, Waiting: 1, Failing: 2, Completing: 2, Terminating: 3, Suspended: 4, Paused: 4, Preempted: 4, Failed: 5, Complete: 6};

// brief keeps of a Job what the overview shows.
// A retry counts failures anew; the indexes that it leaves alone have failed still.
function brief(job) {
  const {metadata: m, spec, status = {}} = job;
  return {
    ns: m.namespace, name: m.name, uid: m.uid, created: m.creationTimestamp, start: status.startTime, ...jobState(job),
    succeeded: status.succeeded ?? 0, failed: Math.max(status.failed ?? 0, sizeOf(status.failedIndexes)), active: status.active ?? 0, ready: status.ready ?? 0,
    completions: spec.completions,
  };
}

// sizeOf is how many indexes a list such as "0,5-7" has.
function sizeOf(list = '') {
  return list.split(',').filter(Boolean).map(run => run.split('-').map(Number)).reduce((n, [first, last = first]) => n + last - first + 1, 0);
}

// sick reports whether a Job fails so much that it should be looked at first, whatever its state.
const sick = j => j.failed > 0 && j.failed >= j.succeeded && !['Complete', 'Failed', 'Suspended'].includes(j.state);

// chart draws what the machine has used: what the daemon has recorded, a figure a minute, or in the first minutes what the page
// has seen itself. A point is the most of the figures that it stands for.
const seen = [];
let recent = null, asked = 0; // asked is when, by this browser's clock
function chart(title, name, most, words) {
  const w = 260, height = 48, ns = 'http://www.w3.org/2000/svg', wide = 130;
  const recorded = recent?.at.length > 10, figures = recorded ? recent[name] : seen.map(s => s[name]);
  const per = Math.ceil(figures.length / wide), samples = [];
  for (let i = figures.length % per; i < figures.length; i += per) samples.push(Math.max(...figures.slice(i, i + per)));
  const minutes = recorded ? Math.round((recent.at.at(-1) - recent.at[0]) / 60) + 1 : 0;
  title += !recorded ? ', since the page was opened' : minutes > 120 ? `, last ${Math.round(minutes / 60)} hours` : `, last ${minutes} minutes`;
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('viewBox', `0 0 ${w} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  const points = samples.map((s, i) => `${(w * i / Math.max(1, samples.length - 1)).toFixed(1)},${(height - 1 - Math.min(1, s / most) * (height - 3)).toFixed(1)}`);
  if (points.length > 1) {
    const area = document.createElementNS(ns, 'polygon');
    area.setAttribute('points', `${points[0].split(',')[0]},${height} ${points.join(' ')} ${w},${height}`);
    const line = document.createElementNS(ns, 'polyline');
    line.setAttribute('points', points.join(' '));
    svg.append(area, line);
  }
  return h('figure', {class: 'card'}, h('figcaption', {}, h('span', {class: 'faint'}, title), h('b', {}, words)), svg);
}

export function overview(main, signal, status) {
  const jobs = new Map(), sets = new Map(), crons = new Map(), nextRuns = new Map(), runs = new Map();
  let waiting = new Map(), asking = false;
  const filter = h('input', {type: 'search', id: 'search', placeholder: 'Search Jobs ( / )', 'aria-label': 'Search Jobs'});
  const cards = h('div', {class: 'cards'}), use = h('div', {class: 'cards'}), rows = h('div'), cronRows = h('div'), setRows = h('div');
  const ofSets = section('JobSets', setRows);
  ofSets.hidden = true;
  const where = h('input', {id: 'namespace', value: namespace(), placeholder: 'all namespaces', autocomplete: 'off', spellcheck: 'false'});
  main.replaceChildren(h('div', {class: 'title'}, h('h1', {}, 'Overview'), h('form', {class: 'row', id: 'where'}, h('label', {}, 'Namespace ', where))),
    cards, use, ofSets, section('Jobs', filter, rows), section('CronJobs', cronRows));
  document.getElementById('where').onsubmit = e => { e.preventDefault(); choose(where.value.trim()); };
  let done = null;
  // none says why a table is empty: there is nothing only where the server has said so.
  const lists = {jobs: 'Loading…', crons: 'Loading…'};
  const told = (list, empty) => (live, e) => {
    if (live) lists[list] = empty;
    else if (e?.code === 403) lists[list] = e.message + '. Name a namespace above that your role is for.';
  };
  // elsewhere goes to a namespace that may be read, where not all may be and none was chosen.
  async function elsewhere() {
    const own = namespace() ? '' : await readable();
    if (own && !signal.aborted) choose(own);
  }

  // found are the Jobs that are looked for, as the table has them.
  const found = () => {
    const wanted = filter.value.toLowerCase();
    return [...jobs.values()].filter(j => !wanted || `${j.ns}/${j.name} ${j.state} ${j.reason ?? ''}`.toLowerCase().includes(wanted))
      .sort((a, b) => sick(b) - sick(a) || rank[a.state] - rank[b.state] || (a.created < b.created ? 1 : -1));
  };
  const draw = later(() => {
    if (signal.aborted) return;
    const all = [...jobs.values()];
    const count = state => all.filter(j => j.state === state).length;
    const card = (n, title, kind) => h('div', {class: 'card figure ' + kind}, h('b', {}, n), h('span', {class: 'faint'}, title));
    const known = jobs.size > 0 || lists.jobs.startsWith('There are'), number = state => known ? count(state).toLocaleString() : '–';
    cards.replaceChildren(card(number('Running'), 'running', 'r'), card(number('Waiting'), 'waiting', 'b'),
      card(done ? done.complete : '–', 'completed today', 's'), card(done ? done.failed : '–', 'failed today', 'f'));
    const list = found();
    redraw(rows, table(['Job', 'State', 'Done', 'Failed', 'Active', 'Time', 'Created', 'Why'], list.slice(0, shown).map(j => [
      h('a', {href: link('jobs', j.ns, j.name)}, h('span', {class: 'faint'}, j.ns + '/'), j.name), badge(j.state),
      h('span', {}, bar(j), ' ', j.succeeded.toLocaleString() + (j.completions ? ' of ' + j.completions.toLocaleString() : '')),
      h('td', {class: sick(j) ? 'warns' : ''}, j.failed ? j.failed.toLocaleString() : ''), j.active || '', between(j.start, j.at), ago(j.created),
      h('td', {class: 'wide faint'}, [waiting.get(j.uid)?.reason || j.reason, ...expected(waiting.get(j.uid)?.forecast)].filter(Boolean).join('; ')),
    ]), jobs.size ? 'No Job matches.' : lists.jobs),
    list.length > shown ? h('p', {class: 'faint'}, `${(list.length - shown).toLocaleString()} more; search to find them.`) : '');
  });
  const drawCrons = later(() => {
    cronRows.replaceChildren(table(['CronJob', 'Schedule', 'Runs', 'Last run', 'Last success', 'Next', ''], [...crons.values()].slice(0, shown).map(c => {
      const {namespace: ns, name} = c.metadata;
      return [h('a', {href: link('cronjobs', ns, name)}, h('span', {class: 'faint'}, ns + '/'), name),
        h('span', {}, h('code', {}, c.spec.schedule), h('span', {class: 'faint'}, c.spec.timeZone ? ' ' + c.spec.timeZone : '')),
        strip(runs.get(c.metadata.uid) ?? [], c.status?.active ?? [], ns), ago(c.status?.lastScheduleTime),
        h('span', {}, ago(c.status?.lastSuccessfulTime), ' ', overdue(c) ? badge('Overdue') : ''),
        c.spec.suspend ? badge('Suspended') : nextRuns.get(c.metadata.uid) ?? '', h('td', {class: 'row'}, ...cronActions(c))];
    }), lists.crons));
  });
  const drawSets = later(() => {
    const all = [...sets.values()].map(s => ({s, state: setState(s).state})).sort((a, b) =>
      (rank[a.state] ?? 1) - (rank[b.state] ?? 1) || (a.s.metadata.creationTimestamp < b.s.metadata.creationTimestamp ? 1 : -1));
    ofSets.hidden = !all.length;
    redraw(setRows, table(['JobSet', 'State', 'Jobs done', 'Failed', 'Groups', 'Restarts', 'Created'], all.slice(0, shown).map(({s, state}) => {
      const {namespace: ns, name} = s.metadata, {replicatedJobs = []} = s.spec, sum = of => (s.status?.replicatedJobsStatus ?? []).reduce((n, g) => n + (g[of] ?? 0), 0);
      const completions = replicatedJobs.reduce((n, g) => n + (g.replicas ?? 1), 0), succeeded = sum('succeeded'), failed = sum('failed');
      return [h('a', {href: link('jobsets', ns, name)}, h('span', {class: 'faint'}, ns + '/'), name), badge(state),
        h('span', {}, bar({succeeded, failed, ready: sum('ready'), completions}), ` ${succeeded.toLocaleString()} of ${completions.toLocaleString()}`), failed || '',
        replicatedJobs.length, s.status?.restarts || '', ago(s.metadata.creationTimestamp)];
    }), ''), all.length > shown ? h('p', {class: 'faint'}, `${(all.length - shown).toLocaleString()} more.`) : '');
  });
  every(60000, drawCrons, signal); // what is overdue becomes so without a change
  const jobsTold = told('jobs', 'There are no Jobs. Submit one: jobctl submit --image busybox:1.36 -- echo hello'), cronsTold = told('crons', 'There are no CronJobs.');
  filter.oninput = draw;
  follow(of('apis/batch/v1', 'jobs'), {}, {
    reset: () => jobs.clear(), put: j => { jobs.set(j.metadata.uid, brief(j)); draw(); },
    remove: j => { jobs.delete(j.metadata.uid); draw(); }, state: (live, why) => {
      status(live, why);
      jobsTold(live, why);
      draw();
      if (live) reasons(); else if (why?.code === 403) elsewhere();
    },
  }, signal);
  follow(of('apis/batch/v1', 'cronjobs'), {}, {
    reset: () => crons.clear(), put: c => { crons.set(c.metadata.uid, c); drawCrons(); tellNext(c); tellRuns(c); },
    remove: c => { crons.delete(c.metadata.uid); drawCrons(); }, state: (live, why) => { cronsTold(live, why); drawCrons(); },
  }, signal);

  follow(of('apis/jobset.x-k8s.io/v1alpha2', 'jobsets'), {}, {
    reset: () => sets.clear(), put: s => { sets.set(s.metadata.uid, s); drawSets(); }, remove: s => { sets.delete(s.metadata.uid); drawSets(); }, state: drawSets,
  }, signal);

  async function tellRuns(c) {
    const {uid} = c.metadata;
    if (runs.size >= explained && !runs.has(uid)) return;
    runs.set(uid, runs.get(uid) ?? []);
    try {
      runs.set(uid, (await runsOf(c, past, signal)).reverse());
      drawCrons();
    } catch { /* the role may not read it */ }
  }
  async function tellNext(c) {
    if (nextRuns.size >= shown) return;
    try {
      nextRuns.set(c.metadata.uid, nextRun(await get(cronPath(c.metadata.namespace, c.metadata.name) + '/why', signal)));
      drawCrons();
    } catch { /* without it the page only says less */ }
  }
  const expected = forecast => forecast ? forecasts(forecast, Date.now()) : [];
  // Reasons of those who wait, fail or have failed, and when those who have not ended will, in the words of "jobctl why": of the first
  // ones of the table. A Job that has failed keeps its reason.
  async function reasons() {
    if (asking) return;
    asking = true;
    const now = new Map();
    for (const j of found().filter(j => ['Running', 'Waiting', 'Failing', 'Failed'].includes(j.state)).slice(0, explained)) {
      try {
        const known = j.state === 'Failed' ? waiting.get(j.uid) : null, {reason, forecast, causes} = known ?? await get(jobPath(j.ns, j.name) + '/why', signal);
        const away = causes?.find(c => c.details?.cluster)?.details.cluster; // it runs there: whether it still does may not be known
        now.set(j.uid, {reason: j.state !== 'Running' || sick(j) ? reason : away ? reason || 'in the cluster ' + away : '', forecast});
      } catch { /* gone, or not to be read */ }
    }
    waiting = now;
    asking = false;
    draw();
  }
  async function today() {
    const since = new Date(); since.setHours(0, 0, 0, 0);
    try {
      const {items = [], metadata} = await get(of('apis/history.jobd.dev/v1', 'jobs') + '?limit=500&since=' + encodeURIComponent(since.toISOString()), signal);
      const more = metadata?.continue ? '+' : '';
      done = {complete: items.filter(j => j.result === 'Complete').length + more, failed: items.filter(j => j.result === 'Failed').length + more};
      draw();
    } catch { /* the role may not read it */ }
  }
  async function measure() {
    try {
      const [{items: [node]}, {items: [used]}] = await Promise.all([get('api/v1/nodes', signal), get('apis/metrics.k8s.io/v1beta1/nodes', signal)]);
      const cpu = quantity(used.usage.cpu), memory = quantity(used.usage.memory);
      const cpus = quantity(node.status.capacity.cpu), all = quantity(node.status.capacity.memory);
      seen.push({cpu: cpu * 1000, memory});
      if (seen.length > 130) seen.shift();
      if (Date.now() - asked > 60000) asked = Date.now(), recent = await get(`api/v1/nodes/${encodeURIComponent(node.metadata.name)}/usage`, signal).catch(() => null);
      use.replaceChildren(chart('Processors', 'cpu', cpus * 1000, `${cpu.toFixed(1)} of ${cpus}`),
        chart('Memory', 'memory', all, `${bytes(memory)} of ${bytes(all)}`), ...await gpus(node, signal));
    } catch { use.replaceChildren(); }
  }
  every(5000, measure, signal);
  every(10000, reasons, signal);
  every(15000, today, signal);
  every(5000, draw, signal);
}

// gpus returns a line for each GPU: how busy it is, its memory, and who uses it. A machine without GPUs is not asked.
async function gpus(node, signal) {
  if (!Object.keys(node.status.capacity).some(name => name.endsWith('/gpu'))) return [];
  const {items = []} = await get('apis/gpus.jobd.dev/v1/gpus', signal).catch(() => ({}));
  return items.map(g => {
    const users = [...(g.pods ?? []).map(p => `${p.namespace}/${p.name}`), ...(g.others ? [`${g.others} other pods`] : []),
      ...(g.processes ?? []).map(p => `pid ${p.pid} of ${p.user} (${p.program ?? ''})`)];
    if (g.inUse && !g.processes) users.push('a program that is not jobd\'s');
    const busy = g.utilization === undefined ? '' : `${g.utilization} % busy`;
    const memory = g.memoryUsed === undefined ? '' : `${bytes(g.memoryUsed)} of ${bytes(g.memory ?? 0)}`;
    const label = `GPU ${g.index}` + (g.instance === undefined ? '' : ` MIG ${g.instance}`);
    return h('p', {}, [label, busy, memory, users.join(', ')].filter(Boolean).join(' · '));
  });
}
