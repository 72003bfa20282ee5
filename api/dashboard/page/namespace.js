// Which namespaces are shown: all, or one that was chosen, or the first that the person may read where not all may be.
import {may} from './api.js';

const key = 'jobd-namespace', hint = 'jobd-namespace-hint';
let likely = [];

export const namespace = () => sessionStorage.getItem(key) ?? '';
export function choose(ns) {
  if (ns) sessionStorage.setItem(key, ns); else sessionStorage.removeItem(key);
  window.dispatchEvent(new HashChangeEvent('hashchange')); // shows the page anew
}

// begins takes in who the person is: a role for one namespace is a group, and a ServiceAccount has a namespace; "jobctl dashboard"
// hands on the one of its context.
export function begins({username = '', groups = []}) {
  const named = groups.map(g => /^jobd:role:[^:]+:(.+)$/.exec(g)?.[1]);
  likely = [...new Set([...named, sessionStorage.getItem(hint), /^system:serviceaccount:([^:]+):/.exec(username)?.[1], 'default'].filter(Boolean))];
}

// readable returns the first namespace whose Jobs the person may list; '' if none is known.
export async function readable() {
  for (const ns of likely) {
    try { if (!await may('list', 'batch', 'jobs', '', ns)) return ns; } catch { /* asked in vain */ }
  }
  return '';
}

// of returns the path of a collection in an API: of one namespace, or of all.
export const of = (api, collection, ns = namespace()) => `${api}/${ns ? `namespaces/${encodeURIComponent(ns)}/` : ''}${collection}`;
