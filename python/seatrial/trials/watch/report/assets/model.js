// All that was seen: intervals in order, stalls and markers. Requests are groups that are alike in
// disk, operation, size, process and relation; what is shown is always a sum of their counts.

const WATCHED_OPERATIONS = ['read', 'write', 'flush', 'discard', 'other'];
const INTERVALS_MAX = 36_000; // an hour at the shortest interval

/** Bands of latency: the lowest ns of each, and its name. */
const LATENCY_BANDS = [
  [0, 'below 100 µs'], [1e5, '100 µs to 1 ms'], [1e6, '1 to 10 ms'],
  [1e7, '10 to 100 ms'], [1e8, '100 ms to 1 s'], [1e9, '1 s and more'],
];

/** What requests can be broken down by: its name, and the value of a group. */
const DIMENSIONS = {
  operation: { label: 'operation', of: (group) => group.operation },
  disk: { label: 'disk', of: (group) => group.disk },
  relation: { label: 'table or index', of: relationName },
  process: { label: 'process', of: (group) => group.process || 'unknown' },
  client: { label: 'client of the run', of: (group) => group.client || 'unknown' },
  size: { label: 'size', of: (group) => sizeName(group.length) },
  sync: { label: 'waiting', of: (group) => SYNC_NAMES[group.sync] },
  latency: { label: 'latency', of: () => '' },
};
const SYNC_NAMES = { 1: 'a process waits', 0: 'in the background', [-1]: 'unknown' };

/** A flush has no address on a disk, so no relation. */
function relationName({ relation, length }) {
  return relation || (length === 0 ? 'no data' : 'unknown');
}

function sizeName(length_bytes) {
  if (length_bytes < 0) return 'unknown';
  if (length_bytes === 0) return 'no data';
  return `${formatSize(length_bytes)} to ${formatSize(2 * length_bytes)}`;
}

/** Intervals, stalls and markers of one watch. */
class Watched {
  constructor(startup) {
    this.startup = startup;
    this.intervals = [];
    this.stalls = new Map();
    this.marks = [];
    this.run = new Run();
  }

  add(sort, data) {
    if (sort === 'interval') this.addInterval(data);
    else if (sort === 'stall') this.stalls.set(data.number, data);
    else if (sort === 'mark') this.marks.push(data);
    else if (sort === 'run') this.run.add(data);
  }

  addInterval({ at, seconds, names, groups, lost, in_flight, cost, readings, headroom }) {
    this.intervals.push({
      at, seconds, from: at - seconds, lost, in_flight, cost, readings, headroom,
      groups: groups.map((fields) => madeGroup(fields, names)),
    });
    const oldest = at - this.startup.history_s;
    while (this.intervals.length > INTERVALS_MAX
      || (this.startup.saved === undefined && this.intervals[0].at < oldest)) {
      this.intervals.shift();
    }
  }

  get last() {
    return this.intervals.at(-1);
  }

  get from() {
    return this.intervals[0]?.from ?? this.startup.started_at;
  }

  get to() {
    return this.last?.at ?? this.startup.started_at;
  }

  /** Return the index of the first interval whose middle is not before a time. */
  indexAt(at_s) {
    let low = 0;
    let high = this.intervals.length;
    while (low < high) {
      const half = (low + high) >> 1;
      const { from, at } = this.intervals[half];
      if ((from + at) / 2 < at_s) low = half + 1;
      else high = half;
    }
    return low;
  }

  /**
   * Return a column of a length (s) by its number: its groups, summed up where it has several
   * intervals. Columns that can no longer change are kept, those of one length at a time. It has
   * the intervals whose middle is in it, and is drawn from where they begin to where they end. An
   * interval may be longer than a column: one without any is then within those next to it.
   */
  column(step, number) {
    if (this.step !== step) {
      this.step = step;
      this.sealed = new Map();
    }
    const kept = this.sealed.get(number);
    if (kept) return kept;
    const [from, to] = [number * step, (number + 1) * step];
    const first = this.indexAt(from);
    const intervals = this.intervals.slice(first, this.indexAt(to));
    const column = {
      from,
      to,
      begun: intervals[0]?.from ?? from,
      ended: intervals.at(-1)?.at ?? to,
      isWithin: intervals.length === 0
        && (this.intervals[first - 1]?.at > from || this.intervals[first]?.from < to),
      seconds: intervals.reduce((sum, { seconds }) => sum + seconds, 0),
      in_flight: flightOf(intervals),
      readings: readingsOf(intervals),
      groups: intervals.length === 1 ? intervals[0].groups : mergedGroups(intervals),
      isSealed: this.to >= to + this.startup.every_s,
    };
    if (column.isSealed) {
      if (this.sealed.size > 4 * COLUMNS_MAX) this.sealed.clear();
      this.sealed.set(number, column);
    }
    return column;
  }

  stallsBetween(from, to) {
    return [...this.stalls.values()]
      .filter(({ started_at, length_s }) => started_at < to && started_at + length_s >= from);
  }

  marksBetween(from, to) {
    return this.marks.filter(({ at }) => at >= from && at < to);
  }
}

function madeGroup(fields, names) {
  const [disk, operation, sync, length, process, relation, client, requests, failed, bytes, ns,
    queued, queue_ns, max_ns, rows] = fields;
  return {
    disk: names[disk], operation: names[operation], sync, length, process: names[process],
    relation: names[relation], client: names[client], requests, failed, bytes, ns, queued, queue_ns,
    max_ns, rows,
  };
}

/** Return a count with what is counted. */
const plural = (count, what) => `${formatCount(count)} ${what}${count === 1 ? '' : 's'}`;

/** Return the cause of a stall in words. */
const causeName = ({ cause }) => (
  { device: 'device', filesystem: 'file system' }[cause] ?? 'cause unknown'
);

/** Return whether a group is among those shown; latencies are a matter of its rows. */
const isShown = (group, filters) => Object.entries(filters).every(
  ([name, value]) => name === 'latency' || DIMENSIONS[name].of(group) === value,
);

/** Return the depth of each disk, times the seconds. */
function flightOf(intervals) {
  const found = new Map();
  for (const { in_flight, seconds } of intervals) {
    for (const [disk, mean] of Object.entries(in_flight)) {
      found.set(disk, (found.get(disk) ?? 0) + mean * seconds);
    }
  }
  return found;
}

/** Return the values of each panel and name, times the seconds; and the seconds of each panel. */
function readingsOf(intervals) {
  const found = new Map();
  for (const { readings, seconds } of intervals) {
    for (const [panel, values] of Object.entries(readings)) {
      if (!found.has(panel)) found.set(panel, { seconds: 0, values: new Map() });
      const own = found.get(panel);
      own.seconds += seconds;
      for (const [name, value] of Object.entries(values)) {
        own.values.set(name, (own.values.get(name) ?? 0) + value * seconds);
      }
    }
  }
  return found;
}

/** Return the groups of several intervals, those that are alike as one. */
function mergedGroups(intervals) {
  const found = new Map();
  for (const { groups } of intervals) {
    for (const group of groups) {
      const { disk, operation, sync, length, process, relation, client } = group;
      const key = [disk, operation, sync, length, process, relation, client].join('\n');
      const own = found.get(key);
      if (own) own.push(group);
      else found.set(key, [group]);
    }
  }
  return [...found.values()].map((own) => (own.length === 1 ? own[0] : mergedGroup(own)));
}

function mergedGroup(groups) {
  const sum = new Sum();
  groups.forEach((group) => sum.add(group, undefined, true));
  const { requests, failed, bytes, ns, queued, queue_ns, max_ns } = sum;
  return {
    ...groups[0], requests, failed, bytes, ns, queued, queue_ns, max_ns,
    rows: [...sum.rows].flat(),
  };
}

/** A sum of groups: counts, bytes and times, and the rows of the latencies. */
class Sum {
  constructor() {
    Object.assign(this, { requests: 0, failed: 0, bytes: 0, ns: 0, queued: 0, queue_ns: 0 });
    this.max_ns = 0;
    this.rows = new Map();
    this.percentiles = new Map(); // that were requested
  }

  /** Add a group; of a band of rows only its requests and times are known, not its bytes. */
  add(group, band, rowsWanted) {
    this.percentiles.clear();
    if (!band) {
      this.requests += group.requests;
      this.failed += group.failed;
      this.bytes += group.bytes;
      this.ns += group.ns;
      this.queued += group.queued;
      this.queue_ns += group.queue_ns;
      if (group.max_ns > this.max_ns) this.max_ns = group.max_ns;
      if (!rowsWanted) return;
    }
    const { rows } = group;
    for (let index = 0; index < rows.length; index += 2) {
      const row = rows[index];
      if (band && (row < band[0] || row >= band[1])) continue;
      if (band) this.requests += rows[index + 1];
      this.rows.set(row, (this.rows.get(row) ?? 0) + rows[index + 1]);
    }
  }

  /** Return the latency (ns) that a share of the requests do not exceed; null where unknown. */
  percentile(share) {
    if (!this.percentiles.has(share)) this.percentiles.set(share, this.computed(share));
    return this.percentiles.get(share);
  }

  computed(share) {
    const { rows_per_doubling } = view.watched.startup;
    const sorted = [...this.rows].sort(([a], [b]) => a - b);
    const total = sorted.reduce((sum, [, count]) => sum + count, 0);
    if (!total) return null;
    let left = Math.ceil(total * share);
    for (const [row, count] of sorted) {
      left -= count;
      if (left > 0) continue;
      // The middle of a row may be above the longest of all.
      return Math.min(2 ** ((row + 0.5) / rows_per_doubling), this.max_ns || Infinity);
    }
    return null;
  }
}
