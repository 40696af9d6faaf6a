// Time in columns: what was seen in each, summed up by a dimension. Columns are whole intervals, so
// that a count is never divided.

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
 * Return the columns of a time: of each its begin, the seconds that were watched, and sums by key.
 * The key of requests is their value in a dimension; without one it is ''.
 */
function columnsOf(watched, range, { filters, by, rowsWanted }) {
  const step = columnLength(range, watched.hello.every_s);
  const first = Math.floor(range.from / step);
  const count = Math.ceil(range.to / step) - first;
  const columns = Array.from({ length: count }, (_, index) => ({
    from: (first + index) * step, to: (first + index + 1) * step, seconds: 0, sums: new Map(),
    in_flight: new Map(),
  }));
  const totals = new Map();
  for (const interval of watched.between(columns[0]?.from ?? 0, columns.at(-1)?.to ?? 0)) {
    const middle = (interval.from + interval.at) / 2;
    const column = columns[Math.min(Math.floor(middle / step) - first, count - 1)];
    column.seconds += interval.seconds;
    addFlight(column, interval);
    for (const group of interval.groups) {
      if (!isShown(group, filters)) continue;
      addKeyed(column.sums, totals, group, { filters, by, rowsWanted });
    }
  }
  return { step, columns, totals };
}

function addFlight(column, { in_flight, seconds }) {
  for (const [disk, mean] of Object.entries(in_flight)) {
    column.in_flight.set(disk, (column.in_flight.get(disk) ?? 0) + mean * seconds);
  }
}

function addKeyed(sums, totals, group, { filters, by, rowsWanted }) {
  if (by === 'latency') {
    addByLatency(sums, totals, group, filters.latency);
    return;
  }
  const key = by ? DIMENSIONS[by].of(group) : '';
  for (const place of [sums, totals]) {
    if (!place.has(key)) place.set(key, new Sum());
    place.get(key).add(group, filters.latency, rowsWanted);
  }
}

function addByLatency(sums, totals, { rows }, band) {
  for (let place = 0; place < rows.length; place += 2) {
    const row = rows[place];
    if (band && (row < band[0] || row >= band[1])) continue;
    const middle_ns = 2 ** ((row + 0.5) / view.watched.hello.rows_per_doubling);
    const [, key] = LATENCY_BANDS.findLast(([least_ns]) => middle_ns >= least_ns);
    for (const found of [sums, totals]) {
      if (!found.has(key)) found.set(key, new Sum());
      found.get(key).requests += rows[place + 1];
    }
  }
}

/** Return the keys that are drawn, the most requests first, and whether others are summed up. */
function drawnKeys(totals, by) {
  const keys = [...totals.keys()];
  const order = { operation: WATCHED_OPERATIONS, latency: LATENCY_BANDS.map(([, name]) => name) };
  if (order[by]) return [order[by].filter((key) => totals.has(key)), false];
  keys.sort((a, b) => totals.get(b).requests - totals.get(a).requests);
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
