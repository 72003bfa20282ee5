// The pages beside the Jobs: history, images, the node.
import {get, request, every} from './api.js';
import {of, namespace, choose, readable} from './namespace.js';
import {h, link, ago, between, bytes, quantity, badge, table, section, action, moment} from './ui.js';

// pastJobs is a table of what the history has of Jobs.
export const pastJobs = (items, empty) => table(
  ['Job', 'Result', 'Reason', 'User', 'Took', 'CPU', 'Memory', 'Retries', 'Exit codes', 'Ended'], items.map(j => [
    h('a', {href: link('jobs', j.namespace, j.name)}, h('span', {class: 'faint'}, j.namespace + '/'), j.name), badge(j.result),
    j.reason ?? '', j.user ?? '', between(j.started, j.ended), (j.cpuSeconds ?? 0).toFixed(1) + ' s', j.peakMemory ? bytes(j.peakMemory) : '–', j.retries || '',
    (j.exitCodes ?? []).map(c => c.count > 1 ? `${c.code} (${c.count})` : c.code).join(', '), ago(j.ended)]), empty);

// orders of the history; the newest first is that of the server.
const orders = {
  'Newest first': null, 'Longest first': j => Date.parse(j.ended) - Date.parse(j.started ?? j.ended), 'Most CPU first': j => j.cpuSeconds ?? 0,
  'Most memory first': j => j.peakMemory ?? 0,
};

export async function historyPage(main, signal, status) {
  let rows = [], next = '';
  const box = h('div', {}, 'Loading…'), more = h('button', {type: 'button', hidden: true}, 'More');
  const search = h('input', {type: 'search', id: 'search', placeholder: 'Search ( / )', 'aria-label': 'Search the history', oninput: () => draw()});
  const choice = (label, ...values) => h('select', {'aria-label': label, onchange: () => draw()}, values.map(v => h('option', {}, v)));
  const result = choice('Result', 'All results', 'Complete', 'Failed'), order = choice('Order', ...Object.keys(orders));
  main.replaceChildren(h('h1', {}, 'History'), h('div', {class: 'row tools'}, search, result, order), box, more);
  // draw shows what was looked for, among what has been loaded.
  const draw = () => {
    const wanted = search.value.toLowerCase(), list = rows.filter(j => (result.selectedIndex === 0 || j.result === result.value) &&
      (!wanted || `${j.namespace}/${j.name} ${j.reason ?? ''} ${j.user ?? ''} ${j.cronJob ?? ''}`.toLowerCase().includes(wanted)));
    const by = orders[order.value];
    box.replaceChildren(pastJobs(by ? list.sort((a, b) => by(b) - by(a)) : list, !rows.length ? 'No Job has ended yet.' :
      next ? `None of the newest ${rows.length} matches; "More" looks at older ones.` : 'No Job matches.'));
  };
  const page = from => get(of('apis/history.jobd.dev/v1', 'jobs') + '?limit=100' + (from && '&continue=' + encodeURIComponent(from)), signal);
  const failed = async e => {
    if (signal.aborted) return;
    const own = e.code === 403 && !namespace() ? await readable() : '';
    if (own && !signal.aborted) return choose(own);
    if (e.code) box.textContent = e.message;
    status(e.code > 0 && e.code !== 403, e);
  };
  const show = (list, all) => {
    rows = all;
    next = list.metadata?.continue ?? '';
    more.hidden = !next;
    draw();
  };
  more.onclick = async () => {
    try {
      const list = await page(next);
      status(true);
      show(list, [...rows, ...list.items ?? []]);
    } catch (e) { await failed(e); }
  };
  // The newest are first. What has ended since the last look is put in front, unless there is a gap to what is known.
  await every(5000, async () => {
    try {
      const list = await page(''), items = list.items ?? [], known = new Set(rows.map(j => j.uid));
      status(true);
      const fresh = items.filter(j => !known.has(j.uid));
      if (!rows.length || fresh.length && fresh.length === items.length) return show(list, items);
      if (fresh.length) show({metadata: {continue: next}}, [...fresh, ...rows]);
    } catch (e) { await failed(e); }
  }, signal);
}

// changing shows what an answer has, again whenever it is another one.
const changing = (ms, ask, signal, status, show, refused) => {
  let shown;
  return every(ms, async () => {
    try {
      const answer = await ask(), text = JSON.stringify(answer);
      if (signal.aborted) return; // another page is shown
      status(true);
      if (text !== shown) show(answer);
      shown = text;
    } catch (e) {
      if (signal.aborted) return;
      status(e.code > 0, e);
      if (e.code) shown = '', refused(e);
    }
  }, signal);
};

// here returns the pods that are on the machine and have not ended, the first thousand; none where the role may not read them.
async function here(signal) {
  try {
    const query = new URLSearchParams({limit: 1000, fieldSelector: 'spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed'});
    return (await get(of('api/v1', 'pods') + '?' + query, signal)).items ?? [];
  } catch (e) {
    if (e.code !== 403) throw e;
    return [];
  }
}
const podLink = (ns, name) => h('a', {href: link('pods', ns, name)}, h('span', {class: 'faint'}, ns + '/'), name);
// several shows the first of many, one below the other.
const several = list => [...list.slice(0, 3).flatMap((e, i) => i ? [h('br'), e] : [e]), list.length > 3 ? ` and ${list.length - 3} more` : ''];

export const imagesPage = (main, signal, status) => changing(10000, async () => [await get('jobd/v1/images', signal), await here(signal)], signal, status,
  ([{items}, pods]) => main.replaceChildren(h('h1', {}, 'Images'), table(['Image', 'Size', 'Used by', 'Digest', 'Created', ''], (items ?? []).map(i => {
    const runs = c => c.image === i.name || c.imageID?.endsWith(i.digest);
    const users = pods.filter(p => [...p.status?.containerStatuses ?? [], ...p.status?.initContainerStatuses ?? []].some(runs));
    return [i.name, bytes(i.size), h('td', {}, several(users.map(p => podLink(p.metadata.namespace, p.metadata.name)))),
      h('code', {title: i.digest}, i.digest.slice(0, 19)), moment(i.created), h('td', {class: 'row'},
        action('Remove', `Remove the image ${i.name}? What runs with it goes on.`, null,
          () => request('jobd/v1/images?ref=' + encodeURIComponent(i.name), {method: 'DELETE'})))];
  }), 'There are no images yet.')),
  e => main.replaceChildren(h('h1', {}, 'Images'),
    h('p', {}, e.code === 404 ? 'Images are listed to clients of the socket only: use jobctl dashboard.' : e.message)));

// requested sums what the containers of a pod request; those of its beginning take turns, unless they stay.
function requested(pod, name) {
  const of = c => quantity(c.resources?.requests?.[name]), sum = list => list.reduce((n, c) => n + of(c), 0), first = pod.spec.initContainers ?? [];
  const stay = sum(first.filter(c => c.restartPolicy === 'Always'));
  return stay + Math.max(sum(pod.spec.containers), ...first.map(of)) + quantity(pod.spec.overhead?.[name]);
}

const nodeAnswers = signal => Promise.all([get('api/v1/nodes', signal), here(signal),
  get('apis/metrics.k8s.io/v1beta1/nodes', signal).catch(() => ({items: []})), get(of('apis/metrics.k8s.io/v1beta1', 'pods'), signal).catch(() => ({items: []}))]);

export const nodePage = (main, signal, status) => changing(10000, () => nodeAnswers(signal), signal, status, ([{items: [node]}, pods, {items: [used]}, {items: uses}]) => {
  const {capacity = {}, allocatable = {}, conditions = [], nodeInfo = {}} = node.status;
  const amount = (name, n) => /memory|storage|hugepages/.test(name) ? bytes(Math.max(0, n)) : +Math.max(0, n).toFixed(2);
  const asks = name => name === 'pods' ? pods.length : pods.reduce((n, p) => n + requested(p, name), 0);
  const usage = new Map(uses.map(m => [m.metadata.namespace + '/' + m.metadata.name, m.containers]));
  const use = (p, name) => usage.get(p.metadata.namespace + '/' + p.metadata.name)?.reduce((n, c) => n + quantity(c.usage[name]), 0);
  const most = pods.map(p => ({p, cpu: requested(p, 'cpu'), memory: requested(p, 'memory')}))
    .sort((a, b) => b.cpu / quantity(allocatable.cpu) + b.memory / quantity(allocatable.memory) - a.cpu / quantity(allocatable.cpu) - a.memory / quantity(allocatable.memory));
  const said = (name, n) => n === undefined ? '–' : amount(name, n);
  main.replaceChildren(h('h1', {}, 'Node'),
    h('p', {class: 'faint'}, `${node.metadata.name} · ${nodeInfo.osImage ?? ''} · ${nodeInfo.kernelVersion ?? ''} · ${nodeInfo.kubeletVersion ?? ''}`),
    section('Resources', table(['Resource', 'Capacity', 'For pods', 'Requested', 'Free', 'Used by the machine'], Object.keys(capacity).filter(k => quantity(capacity[k]) > 0).map(k => {
      const total = quantity(allocatable[k]);
      return [k, amount(k, quantity(capacity[k])), amount(k, total), amount(k, asks(k)), amount(k, total - asks(k)),
        used?.usage[k] ? amount(k, quantity(used.usage[k])) : ''];
    }), 'None.')),
    section('Pods that hold most', table(['Pod', 'CPUs requested', 'used', 'Memory requested', 'used'], most.slice(0, 20).map(({p, cpu, memory}) =>
      [podLink(p.metadata.namespace, p.metadata.name), amount('cpu', cpu), said('cpu', use(p, 'cpu')), bytes(memory), said('memory', use(p, 'memory'))]),
    'No pods are here, or your role does not show them.')),
    section('Conditions', table(['Condition', 'Status', 'Reason', 'Message'], conditions.map(c => [c.type, c.status, c.reason ?? '',
      h('td', {class: 'wide'}, c.message ?? '')]), 'None.')));
}, e => main.replaceChildren(h('h1', {}, 'Node'), h('p', {}, e.message)));
