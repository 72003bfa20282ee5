// Finds the page that the address names, and takes the keys.
import {post, setToken} from './api.js';
import {h, link} from './ui.js';
import {overview} from './overview.js';
import {jobPage} from './job.js';
import {cronJobPage} from './cronjob.js';
import {jobSetPage} from './jobset.js';
import {podPage} from './pod.js';
import {historyPage, imagesPage, nodePage} from './places.js';
import {begins, namespace} from './namespace.js';

const main = document.getElementById('main'), live = document.getElementById('live'), who = document.getElementById('who');
let current = new AbortController();

// status shows whether what is seen is live.
function status(on, why) {
  if (why?.session) return ended(why.message);
  if (why?.code === 401) return begin();
  live.textContent = on ? 'live' : why?.code === 403 ? why.message : 'reconnecting…';
  live.className = on ? 'on' : 'off';
}

function ended(message) {
  current.abort();
  live.textContent = '';
  main.replaceChildren(h('div', {class: 'gate'}, h('h1', {}, 'jobd'), h('p', {}, message)));
}

// The pages: those without more in their address, and those of an object, whose namespace and name are.
const places = Object.assign(Object.create(null), {'': overview, history: historyPage, images: imagesPage, node: nodePage});
const objects = Object.assign(Object.create(null), {jobs: jobPage, jobsets: jobSetPage, cronjobs: cronJobPage, pods: podPage});

function show() {
  current.abort();
  current = new AbortController();
  const [page = '', ...rest] = location.hash.replace(/^#\//, '').split('/').map(part => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  document.title = [rest.at(-1) ?? page, 'jobd'].filter(Boolean).join(' · ');
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '#/' + page) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current');
  }
  window.scrollTo(0, 0);
  if (places[page] && !rest.length) places[page](main, current.signal, status);
  else if (objects[page] && rest.length === 2 && rest.every(Boolean)) objects[page](main, current.signal, status, ...rest);
  else unknown(page, rest);
}

// unknown says that there is no such address, and which one may be meant.
function unknown(page, [name]) {
  live.textContent = '';
  const ns = namespace() || 'default', meant = objects[page] && name ? [page, ns, name] : [];
  main.replaceChildren(h('h1', {}, 'There is no such page'), h('p', {}, 'The address ', h('code', {}, location.hash), ' leads nowhere. ',
    ...objects[page] ? ['It would be ', h('code', {}, `#/${page}/NAMESPACE/NAME`), '. '] : [], 'See ',
    h('a', {href: link(...meant)}, meant.length ? `${ns}/${name}` : 'the overview'), '.'));
}

// begin asks who the person is; without credentials it asks for a token.
async function begin(given) {
  current.abort();
  try {
    const {status: {userInfo}} = await post('apis/authentication.k8s.io/v1/selfsubjectreviews',
      {apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview'}, AbortSignal.timeout(10000));
    who.textContent = userInfo.username;
    begins(userInfo);
    show();
  } catch (e) {
    if (e.session) return ended(e.message);
    if (e.code === 401) return askToken(given ? 'This token is not valid here, or has expired.' : '');
    ended(e.message);
    setTimeout(() => begin(given), 2000);
  }
}

function askToken(wrong) {
  const input = h('input', {type: 'password', autocomplete: 'off', 'aria-label': 'Token', required: true});
  const form = h('form', {}, h('p', {}, 'Enter a token, of a ServiceAccount (jobctl create token NAME) or from your kubeconfig. It is kept until this tab is closed.'),
    h('div', {class: 'row'}, input, h('button', {class: 'do'}, 'Sign in')), wrong ? h('p', {role: 'alert', class: 'wrong'}, wrong) : '');
  form.onsubmit = e => { e.preventDefault(); setToken(input.value.trim()); begin(true); };
  setToken('');
  main.replaceChildren(h('div', {class: 'gate'}, h('h1', {}, 'jobd'), form));
  input.focus();
}

document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
  if (e.key === 'Escape' && typing) e.target.blur();
  if (typing || document.querySelector('dialog[open]') || e.target.tagName === 'CANVAS') return;
  if (e.key === '/') { e.preventDefault(); document.getElementById('search')?.focus(); }
  if (e.key === 'j' || e.key === 'k') {
    const all = [...main.querySelectorAll('tbody a')], at = all.indexOf(document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at + (e.key === 'j' ? 1 : -1)))]?.focus();
  }
});
document.querySelector('.skip').addEventListener('click', e => { e.preventDefault(); main.focus(); });
window.addEventListener('hashchange', () => { if (!main.querySelector('.gate form')) show(); });
begin();
