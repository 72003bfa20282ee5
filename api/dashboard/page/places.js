// The pages beside the Jobs: history, images, the node.
import {get, every} from './api.js';
import {of, namespace, choose, readable} from './namespace.js';
import {h, link, ago, between, bytes, quantity, badge, table, section, moment} from './ui.js';

// pastJobs is a table of what the history has of Jobs.
export const pastJobs = (items, empty) => table(
  ['Job', 'Result', 'Reason', 'User', 'Took', 'CPU', 'Memory', 'Retries', 'Exit codes', 'Ended'], items.map(j => [
    h('a', {href: link('jobs', j.namespace, j.name)}, h('span', {class: 'faint'}, j.namespace + '/'), j.name), badge(j.result),
    j.reason ?? '', j.user ?? '', between(j.started, j.ended), (j.cpuSeconds ?? 0).toFixed(1) + ' s', bytes(j.peakMemory ?? 0), j.retries || '',
    (j.exitCodes ?? []).map(c => c.count > 1 ? `${c.code} (${c.count})` : c.code).join(', '), ago(j.ended)]), empty);

export async function historyPage(main, signal, status) {
  let rows = [], next = '';
  const box = h('div'), more = h('button', {type: 'button', hidden: true}, 'More');
  main.replaceChildren(h('h1', {}, 'History'), box, more);
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
    box.replaceChildren(pastJobs(rows, 'No Job has ended yet.'));
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
      if (!box.firstElementChild || fresh.length && fresh.length === items.length) return show(list, items);
      if (fresh.length) show({metadata: {continue: next}}, [...fresh, ...rows]);
    } catch (e) { await failed(e); }
  }, signal);
}

// changing shows what an answer has, again whenever it is another one.
const changing = (ms, path, signal, status, show, refused) => {
  let shown;
  return every(ms, async () => {
    try {
      const answer = await get(path, signal), text = JSON.stringify(answer);
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

export const imagesPage = (main, signal, status) => changing(10000, 'jobd/v1/images', signal, status,
  ({items}) => main.replaceChildren(h('h1', {}, 'Images'), table(['Image', 'Size', 'Digest', 'Created'], (items ?? []).map(i => [i.name, bytes(i.size),
    h('code', {title: i.digest}, i.digest.slice(0, 19)), moment(i.created)]), 'There are no images yet.')),
  e => main.replaceChildren(h('h1', {}, 'Images'),
    h('p', {}, e.code === 404 ? 'Images are listed to clients of the socket only: use jobctl dashboard.' : e.message)));

export const nodePage = (main, signal, status) => changing(10000, 'api/v1/nodes', signal, status, ({items: [node]}) => {
  const {capacity = {}, allocatable = {}, conditions = [], nodeInfo = {}} = node.status;
  const amount = (name, text) => /memory|storage|hugepages/.test(name) ? bytes(quantity(text)) : text;
  main.replaceChildren(h('h1', {}, 'Node'),
    h('p', {class: 'faint'}, `${node.metadata.name} · ${nodeInfo.osImage ?? ''} · ${nodeInfo.kernelVersion ?? ''} · ${nodeInfo.kubeletVersion ?? ''}`),
    section('Conditions', table(['Condition', 'Status', 'Reason', 'Message'], conditions.map(c => [c.type, c.status, c.reason ?? '',
      h('td', {class: 'wide'}, c.message ?? '')]), 'None.')),
    section('Resources', table(['Resource', 'Capacity', 'For pods'], Object.keys(capacity).map(k => [k, amount(k, capacity[k]), amount(k, allocatable[k] ?? '')]), 'None.')));
}, e => main.replaceChildren(h('h1', {}, 'Node'), h('p', {}, e.message)));
