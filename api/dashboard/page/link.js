// Exchanges the token in the fragment of the link for a cookie, and goes on to the page.
const [token, namespace] = location.hash.slice(1).split('.');
history.replaceState(null, '', location.pathname); // neither the history of the browser nor a bookmark keeps it
const said = document.getElementById('said');
try {
  if (token) {
    const answer = await fetch('session', {method: 'POST', headers: {'Content-Type': 'application/jobd-token'}, body: token});
    if (!answer.ok) throw new Error(await answer.text());
    if (namespace) sessionStorage.setItem('jobd-namespace-hint', namespace);
  }
  location.replace('dashboard/');
} catch (e) {
  said.textContent = e.message;
}
