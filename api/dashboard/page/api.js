// Requests to the API, which is beside the page, and watches of it.
const base = new URL('../', document.baseURI);

let token = sessionStorage.getItem('jobd-token') ?? '';
export function setToken(t) {
  token = t;
  if (t) sessionStorage.setItem('jobd-token', t); else sessionStorage.removeItem('jobd-token');
}

export class APIError extends Error {
  constructor(code, message, session) { super(message); this.code = code; this.session = session; }
}

// request sends a request, and throws an APIError for an answer that is none of success.
export async function request(path, {method = 'GET', body, type = 'application/json', accept = 'application/json', signal} = {}) {
  const headers = {Accept: accept};
  if (token) headers.Authorization = 'Bearer ' + token;
  if (body !== undefined) headers['Content-Type'] = type;
  const answer = await fetch(new URL(path, base), {
    method, headers, signal, cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.trim() || answer.statusText;
  try { message = JSON.parse(text).message ?? message; } catch { /* not a Status */ }
  throw new APIError(answer.status, message, answer.headers.get('Jobd-Dashboard') === 'refused');
}

// Without this name a change would be said to be the browser's.
const manager = '?fieldManager=jobd-dashboard';

export const get = async (path, signal) => (await request(path, {signal})).json();
export const post = async (path, body = {}, signal) => (await request(path + manager, {method: 'POST', body, signal})).json();
export const patch = async (path, body) =>
  (await request(path + manager, {method: 'PATCH', body, type: 'application/merge-patch+json'})).json();

export const pause = (ms, signal) => new Promise(done => {
  const timer = setTimeout(done, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, {once: true});
});

// every calls f now, and then at intervals while the page is looked at.
export const every = (ms, f, signal) => {
  const timer = setInterval(() => { if (!document.hidden) f(); }, ms);
  signal.addEventListener('abort', () => clearInterval(timer), {once: true});
  return f();
};

// lines reads an answer line by line as it comes, of each line so many characters: a pod need not end any.
export async function* lines(answer, most = Infinity) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) break;
    const [first, ...more] = value.split('\n');
    if (rest.length < most) rest += first.slice(0, most - rest.length);
    for (const part of more) {
      yield rest;
      rest = part.slice(0, most);
    }
  }
  if (rest) yield rest;
}

// follow keeps a collection up to date until signal aborts: it lists in pages, then watches from there. After a lost
// connection the watch resumes at the last version seen; when that is too old everything is listed again, so that nothing
// is missed. on.reset() begins a new list, on.put(object) and on.remove(object) change it, on.state(live, why) says how
// it stands.
export async function follow(path, query, on, signal) {
  let version = '', wait = 500;
  const url = more => path + '?' + new URLSearchParams({...query, ...more});
  while (!signal.aborted) {
    try {
      if (!version) {
        on.reset();
        let next = '';
        do {
          const page = await get(url({limit: 500, ...(next && {continue: next})}), signal);
          for (const item of page.items ?? []) on.put(item);
          next = page.metadata.continue ?? '';
          version = page.metadata.resourceVersion;
        } while (next);
      }
      const answer = await request(url({watch: 1, resourceVersion: version, allowWatchBookmarks: true, timeoutSeconds: 600}), {signal});
      on.state(true);
      wait = 500;
      for await (const line of lines(answer)) {
        const {type, object} = JSON.parse(line);
        if (type === 'ERROR') throw new APIError(object.code, object.message);
        version = object.metadata.resourceVersion;
        if (type === 'DELETED') on.remove(object);
        else if (type !== 'BOOKMARK') on.put(object);
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e.code === 410) { version = ''; continue; }
      on.state(false, e);
      if (e.code === 401 || e.code === 403) return;
      await pause(wait, signal);
      wait = Math.min(wait * 2, 10000);
    }
  }
}

// may asks what the person's own role allows; the answer is the reason why not, or ''.
export async function may(verb, group, resource, subresource, namespace, name) {
  const resourceAttributes = {verb, group, resource, subresource, namespace, name};
  const {status} = await post('apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: {resourceAttributes},
  });
  return status.allowed ? '' : status.reason || `your role does not allow to ${verb} ${[resource, subresource].filter(Boolean).join('/')} here`;
}

export const jobPath = (ns, name = '') => `apis/batch/v1/namespaces/${encodeURIComponent(ns)}/jobs${name && '/' + encodeURIComponent(name)}`;
export const cronPath = (ns, name) => `apis/batch/v1/namespaces/${encodeURIComponent(ns)}/cronjobs/${encodeURIComponent(name)}`;
export const podPath = (ns, name = '') => `api/v1/namespaces/${encodeURIComponent(ns)}/pods${name && '/' + encodeURIComponent(name)}`;
export const setPath = (ns, name = '') => `apis/jobset.x-k8s.io/v1alpha2/namespaces/${encodeURIComponent(ns)}/jobsets${name && '/' + encodeURIComponent(name)}`;
