// The pages beside the Jobs: history, images, the node.
import {get} from './api.js';
import {of, namespace, choose, readable} from './namespace.js';
import {h, link, ago, between, bytes, quantity, badge, table, section, moment} from './ui.js';

// pastJobs is a table of what the history has of Jobs.
export const pastJobs = (items, empty) => table(
  ['Job', 'Result', 'Reason', 'User', 'Took', 'CPU', 'Memory', 'Retries', 'Exit codes', 'Ended'], items.map(j => [
    h('a', {href: link('jobs', j.namespace, j.name)}, h('span', {class: 'faint'}, j.namespace + '/'), j.name), badge(j.result),
    j.reason ?? '', j.user ?? '', between(j.started, j.ended), (j.cpuSeconds ?? 0).toFixed(1) + ' s', bytes(j.peakMemory ?? 0), j.retries || '',
    (j.exitCodes ?? []).map(c => c.count > 1 ? `${c.code} (${c.count})` : c.code).join(', '), ago(j.ended)]), empty);

export async function historyPage(main, signal, status) {
  const rows = [], box = h('div'), more = h('button', {type: 'button', hidden: true}, 'More');
  main.replaceChildren(h('h1', {}, 'History'), box, more);
  let next = '';
  const read = more.onclick = async () => {
    try {
      const list = await get(of('apis/history.jobd.dev/v1', 'jobs') + '?limit=100' + (next && '&continue=' + encodeURIComponent(next)), signal);
      status(true);
      next = list.metadata?.continue ?? '';
      more.hidden = !next;
      rows.push(...list.items ?? []);
      box.replaceChildren(pastJobs(rows, 'No Job has ended yet.'));
    } catch (e) {
      if (signal.aborted) return;
      const own = e.code === 403 && !namespace() ? await readable() : '';
      if (own && !signal.aborted) return choose(own);
      box.textContent = e.message;
      status(e.code > 0 && e.code !== 403, e);
    }
  };
  await read();
}

export async function imagesPage(main, signal, status) {
  main.replaceChildren(h('h1', {}, 'Images'));
  try {
    const {items = []} = await get('jobd/v1/images', signal);
    status(true);
    main.append(table(['Image', 'Size', 'Digest', 'Created'], (items ?? []).map(i => [i.name, bytes(i.size),
      h('code', {title: i.digest}, i.digest.slice(0, 19)), moment(i.created)]), 'There are no images yet.'));
  } catch (e) {
    if (!signal.aborted) main.append(h('p', {}, e.code === 404 ? 'Images are listed to clients of the socket only: use jobctl dashboard.' : e.message));
  }
}

export async function nodePage(main, signal, status) {
  main.replaceChildren(h('h1', {}, 'Node'));
  try {
    const {items: [node]} = await get('api/v1/nodes', signal);
    status(true);
    const {capacity = {}, allocatable = {}, conditions = [], nodeInfo = {}} = node.status;
    const amount = (name, text) => /memory|storage|hugepages/.test(name) ? bytes(quantity(text)) : text;
    main.append(h('p', {class: 'faint'}, `${node.metadata.name} · ${nodeInfo.osImage ?? ''} · ${nodeInfo.kernelVersion ?? ''} · ${nodeInfo.kubeletVersion ?? ''}`),
      section('Conditions', table(['Condition', 'Status', 'Reason', 'Message'], conditions.map(c => [c.type, c.status, c.reason ?? '',
        h('td', {class: 'wide'}, c.message ?? '')]), 'None.')),
      section('Resources', table(['Resource', 'Capacity', 'For pods'], Object.keys(capacity).map(k => [k, amount(k, capacity[k]), amount(k, allocatable[k] ?? '')]), 'None.')));
  } catch (e) { if (!signal.aborted) main.append(h('p', {}, e.message)); }
}
