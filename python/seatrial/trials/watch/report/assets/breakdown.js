// Tables: what the requests shown are of, and what lay in a cell of a heat map. A click on a name
// shows these requests alone.

const BREAKDOWN_ROWS_MAX = 12;
const BROKEN_DOWN_BY = ['operation', 'relation', 'client', 'process', 'size', 'disk', 'sync'];

/** Return the sums of a time by a dimension, the most requests first. */
function sumsOf(range, filters, by) {
  const sums = new Map();
  const step = columnLength(range, view.watched.startup.every_s);
  let seconds = 0;
  for (let number = Math.floor(range.from / step); number * step < range.to; number += 1) {
    const column = view.watched.column(step, number);
    seconds += column.seconds;
    for (const group of column.groups) {
      if (isShown(group, filters)) addKeyed(sums, group, { filters, by, rowsWanted: true });
    }
  }
  const rows = [...sums].filter(([, sum]) => sum.requests || sum.bytes);
  return { rows: rows.sort(([, a], [, b]) => b.requests - a.requests), seconds };
}

/** Return the columns of a table: heading and text of a sum. */
function breakdownColumns(filters, total, seconds) {
  const { level } = view.watched.startup;
  const latency = (share) => (sum) => {
    const found = sum.percentile(share);
    return found === null ? '–' : formatDuration(found);
  };
  const counts = [
    ['Requests', (sum) => formatCount(sum.requests)],
    ['Share', (sum) => formatShare(total ? sum.requests / total : 0)],
  ];
  if (filters.latency) return counts;
  return [
    ...counts,
    ['Per second', (sum) => formatRate(seconds ? sum.requests / seconds : 0)],
    ['Bytes/s', (sum) => (sum.bytes ? `${formatSize(sum.bytes / seconds)}/s` : '–')],
    ...(level === 1
      ? [['Mean', (sum) => (sum.requests ? formatDuration(sum.ns / sum.requests) : '–')]]
      : [['p50', latency(0.5)], ['p99', latency(0.99)],
        ['Max', (sum) => (sum.max_ns ? formatDuration(sum.max_ns) : '–')]]),
  ];
}

/** Return a table of one dimension; null where it has a single value that says nothing. */
function breakdownTable(range, filters, by) {
  const { rows, seconds } = sumsOf(range, filters, by);
  if (rows.every(([key]) => key === 'unknown' || (by === 'relation' && key === 'no data'))) {
    return null;
  }
  const total = rows.reduce((sum, [, { requests }]) => sum + requests, 0);
  const columns = breakdownColumns(filters, total, seconds);
  const table = document.createElement('table');
  table.dataset.by = by;
  const more = rows.length > BREAKDOWN_ROWS_MAX
    ? `, the first ${BREAKDOWN_ROWS_MAX} of ${rows.length}` : '';
  table.createCaption().textContent = `By ${DIMENSIONS[by].label}${more}`;
  const head = table.createTHead().insertRow();
  for (const text of [DIMENSIONS[by].label, ...columns.map(([name]) => name)]) {
    head.append(Object.assign(textElement('th', text), { scope: 'col' }));
  }
  const body = table.createTBody();
  for (const [key, sum] of rows.slice(0, BREAKDOWN_ROWS_MAX)) {
    const row = body.insertRow();
    const name = Object.assign(document.createElement('th'), { scope: 'row' });
    const button = textElement('button', key);
    button.type = 'button';
    button.title = 'Show only these requests';
    button.addEventListener('click', () => view.filter(by, key));
    name.append(button);
    row.append(name, ...columns.map(([, text]) => textElement('td', text(sum))));
  }
  return scrolled(table);
}

function scrolled(table) {
  const box = document.createElement('div');
  box.className = 'scroll';
  box.append(table);
  return box;
}

function tablesOf(range, filters) {
  const parts = document.createElement('div');
  parts.className = 'parts';
  const wanted = BROKEN_DOWN_BY.filter((by) => filters[by] === undefined);
  parts.append(...wanted.map((by) => breakdownTable(range, filters, by)).filter(Boolean));
  return parts;
}

/** Draw the tables of the time that is shown. */
function drawBreakdown() {
  const { from, to } = view.range;
  const heading = textElement('h2', `${clockTime(from)} to ${clockTime(to)}, broken down`);
  const parts = tablesOf(view.range, view.filters);
  const nothing = textElement('p', 'No requests completed in this time.');
  document.getElementById('breakdown').replaceChildren(
    heading, parts.childElementCount ? parts : nothing,
  );
}

/** Show what lay in a cell of a heat map; null closes it. */
function showCell(cell) {
  const element = document.getElementById('cell');
  element.hidden = cell === null;
  if (!cell) {
    element.replaceChildren();
    return;
  }
  const { from, to, band, count, operation } = cell;
  const filters = { ...cell.filters, latency: band };
  const what = operation ? `${operation} request` : 'request';
  const when = columnTime(cell);
  const buttons = document.createElement('p');
  buttons.className = 'row';
  const button = (text, act) => {
    const made = Object.assign(textElement('button', text), { type: 'button' });
    made.addEventListener('click', act);
    buttons.append(made);
  };
  button('Show only requests with this latency', () => view.setFilters(filters));
  button('Zoom to this time', () => view.zoom(from - 2 * (to - from), to + 2 * (to - from)));
  button('Close', () => view.openCell(null));
  element.replaceChildren(
    textElement('h2', `${plural(count, what)}, ${when}, ${bandName(band)}`),
    tablesOf({ from, to }, filters),
    buttons,
  );
}

/** Draw the list of stalls and markers, the last ones first. */
function drawEvents() {
  const { watched } = view;
  const stalls = [...watched.stalls.values()].map((stall) => {
    const length = formatDuration(stall.length_s * 1e9, 2);
    const state = stall.is_over ? `stall of ${length}` : `stalled for ${length}, not over`;
    return [stall.started_at, `${state}, ${causeName(stall)}`, stall.text];
  });
  const marks = watched.marks.map(({ at, text }) => [at, 'marker', text]);
  const rows = [...stalls, ...marks].sort(([a], [b]) => b - a).slice(0, 100);
  const element = document.getElementById('events');
  if (!rows.length) {
    element.replaceChildren(textElement('p', 'None so far.'));
    return;
  }
  const table = document.createElement('table');
  for (const [at, sort, text] of rows) {
    const row = table.insertRow();
    const when = Object.assign(textElement('button', clockTime(at, 1)), { type: 'button' });
    when.addEventListener('click', () => view.zoom(at - 15, at + 15));
    const cells = [document.createElement('td'), textElement('td', sort), textElement('td', text)];
    cells[0].append(when);
    cells.slice(1).forEach((cell) => { cell.className = 'word'; });
    row.append(...cells);
  }
  element.replaceChildren(scrolled(table));
}
