
// The rest of a report: what is shown of a chosen cell.
const data = JSON.parse(document.getElementById('data').textContent);
const podsOf = new Map((data.cells || []).map(c => [c.cell, c.pods]));
const place = document.getElementById('picture');
const shown = data.set ? new SetPicture(place) : new Picture(place, {onSelect: show});
shown.update(data.set || data.picture);

function show(cell) {
  const box = shown.detail;
  box.replaceChildren();
  const known = podsOf.get(cell);
  if (!known) {
    box.append(element('p', '', 'The report has no single pods of this cell.'));
    return;
  }
  const table = element('table');
  const head = element('tr');
  for (const title of ['pod', 'result', 'exit code', 'reason', 'started', 'took', 'processor time', 'peak memory']) head.append(element('th', '', title));
  table.append(head);
  for (const a of known) {
    const row = element('tr');
    for (const text of [a.pod, names[a.state] || a.state, a.exitCode ?? '–', a.reason || '–', a.started ? time(a.started) : '–',
      a.started && a.ended ? duration(a.ended - a.started) : '–', duration(a.cpuSeconds), a.peakMemory ? bytes(a.peakMemory) : '–']) {
      row.append(element('td', '', text));
    }
    table.append(row);
  }
  box.append(table);
}

const failures = data.picture?.failures?.groups ?? [];
if (failures.length) {
  shown.select(failures[0].cell);
  show(failures[0].cell);
}
