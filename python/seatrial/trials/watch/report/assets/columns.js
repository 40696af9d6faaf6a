// Time in columns: what was seen in each, summed up by a dimension. Columns are whole intervals, so
// that a count is never divided, and those that are over are summed up once.

const COLUMNS_MAX = 240;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
const SERIES_MAX = 6;
const REST = 'all others';

/** Return the length of a column (s): so many intervals that a time has not too many columns. */
function columnLength(range, every_s) {
  const least = (range.to - range.from) / COLUMNS_MAX;
  return every_s * (STEPS.find((step) => step * every_s >= least * 0.999) ?? STEPS.at(-1));
}

/**
 * Return the columns of a time: of each its begin, the seconds that were watched, and sums by key;
 * and the requests of each key in all of them. The key of requests is their value in a dimension;
 * without one it is ''.
 *
 * `kept` holds the columns that were made before; those that cannot change are not made again.
 */
function columnsOf(watched, range, wanted, kept) {
  const step = columnLength(range, watched.startup.every_s);
  const name = JSON.stringify([step, wanted]);
  if (kept.name !== name) Object.assign(kept, { name, columns: new Map() });
  const first = Math.floor(range.from / step);
  const columns = [];
  for (let number = first; number * step < range.to; number += 1) {
    columns.push(kept.columns.get(number) ?? madeColumn(watched.column(step, number), wanted));
  }
  kept.columns = new Map(columns.filter(({ isSealed }) => isSealed)
    .map((column) => [Math.round(column.from / step), column]));
  const totals = new Map();
  for (const { sums } of columns) {
    for (const [key, { requests }] of sums) totals.set(key, (totals.get(key) ?? 0) + requests);
  }
  return { step, columns: columns.filter(({ isWithin }) => !isWithin), totals };
}

function madeColumn({ groups, ...column }, { filters, by, rowsWanted }) {
  const sums = new Map();
  for (const group of groups) {
    if (isShown(group, filters)) addKeyed(sums, group, { filters, by, rowsWanted });
  }
  return { ...column, sums };
}

/** Add a group to the sum of its key. */
function addKeyed(sums, group, { filters, by, rowsWanted }) {
  if (by === 'latency') {
    addByLatency(sums, group, filters.latency);
    return;
  }
  const key = by ? DIMENSIONS[by].of(group) : '';
  if (!sums.has(key)) sums.set(key, new Sum());
  sums.get(key).add(group, filters.latency, rowsWanted);
}

function addByLatency(sums, { rows }, band) {
  for (let index = 0; index < rows.length; index += 2) {
    const row = rows[index];
    if (band && (row < band[0] || row >= band[1])) continue;
    const middle_ns = 2 ** ((row + 0.5) / view.watched.startup.rows_per_doubling);
    const [, key] = LATENCY_BANDS.findLast(([least_ns]) => middle_ns >= least_ns);
    if (!sums.has(key)) sums.set(key, new Sum());
    sums.get(key).requests += rows[index + 1];
  }
}

/** Return the keys that are drawn, the most requests first, and whether others are summed up. */
function drawnKeys(totals, by) {
  const keys = [...totals.keys()];
  const order = { operation: WATCHED_OPERATIONS, latency: LATENCY_BANDS.map(([, name]) => name) };
  if (order[by]) return [order[by].filter((key) => totals.has(key)), false];
  keys.sort((a, b) => totals.get(b) - totals.get(a));
  return [keys.slice(0, SERIES_MAX), keys.length > SERIES_MAX];
}

/** Return the sum of a column's requests that are none of the keys; null where there are none. */
function restOf(sums, keys) {
  const rest = new Sum();
  for (const [key, sum] of sums) {
    if (keys.includes(key)) continue;
    for (const name of ['requests', 'failed', 'bytes', 'ns', 'queued', 'queue_ns']) {
      rest[name] += sum[name];
    }
    rest.max_ns = Math.max(rest.max_ns, sum.max_ns);
    for (const [row, count] of sum.rows) rest.rows.set(row, (rest.rows.get(row) ?? 0) + count);
  }
  return rest.requests || rest.bytes ? rest : null;
}
