// Lines over time: rates, throughput, percentiles, sizes and depth, each by a dimension.

const ALL_DIMENSIONS = ['operation', 'disk', 'relation', 'process', 'client', 'size', 'sync'];
const perSecond = (name) => (sum, seconds) => (seconds ? sum[name] / seconds : null);
const percentileOf = (share) => (sum) => sum.percentile(share);
const ratio = (above, below) => (sum) => (sum[below] ? sum[above] / sum[below] : null);

/**
 * What can be drawn. `by`: what it can be broken down by; `rows`: it needs the latencies; `whole`:
 * it is not known of requests of some latencies only.
 */
const METRICS = {
  heat: {
    label: 'Latency heat map', by: [], rows: true, option: watchHeatOption, reading: heatReading,
  },
  rate: metric('Requests per second', perSecond('requests'), {
    by: [...ALL_DIMENSIONS, 'latency'], format: (value) => `${formatRate(value)}/s`,
  }),
  throughput: metric('Throughput', perSecond('bytes'), {
    whole: true, format: (value) => `${formatSize(value)}/s`, binary: true,
  }),
  p50: metric('Median latency', percentileOf(0.5), {
    rows: true, format: formatDuration, log: true,
  }),
  p99: metric('Latency, 99th percentile', percentileOf(0.99), {
    rows: true, format: formatDuration, log: true,
  }),
  mean: metric('Mean latency', ratio('ns', 'requests'), {
    whole: true, format: formatDuration, log: true,
  }),
  queue: metric('Mean time in the queue', ratio('queue_ns', 'queued'), {
    whole: true, format: formatDuration, log: true,
  }),
  size: metric('Mean size', ratio('bytes', 'requests'), {
    whole: true, format: formatSize, binary: true,
  }),
  failed: metric('Failed requests per second', perSecond('failed'), {
    whole: true, format: (value) => `${formatRate(value)}/s`,
  }),
  flight: metric('Requests in flight', null, {
    by: ['disk'], whole: true, format: (value) => formatNumber(value),
  }),
  pressure: reading('Time that tasks waited for I/O', 'pressure', formatShare),
  groupThroughput: {
    ...reading('Control group: throughput', 'group_bytes', (value) => `${formatSize(value)}/s`),
    binary: true,
  },
  groupRate: reading('Control group: requests per second', 'group_requests', perSecondText),
  runRate: {
    ...reading('Run: completed per second', 'run_rate', perSecondText), isOfRun: true,
  },
  runP99: {
    ...reading('Run: 99th percentile', 'run_p99', formatDuration), log: true, isOfRun: true,
  },
  serverRate: reading('Server: its requests per second', 'server_requests', perSecondText),
  serverTime: {
    ...reading('Server: mean time of its requests', 'server_ns', formatDuration),
    below: 'server_requests',
    log: true,
  },
  serverWal: {
    ...reading('Server: WAL written', 'server_wal', (value) => `${formatSize(value)}/s`),
    binary: true,
  },
  serverBuffers: reading('Server: buffers written', 'server_buffers', perSecondText),
  serverWaits: reading('Server: what active sessions wait for', 'server_waits', formatNumber),
};

function perSecondText(value) {
  return `${formatRate(value)}/s`;
}

/** A chart of what was read besides requests: no filter applies to it. */
function reading(label, panel, format) {
  return { ...metric(label, null, { by: [], format: (value) => format(value) }), panel };
}

/** Return the sums of a panel's values over all columns. */
function readingTotals(columns, { panel, below }) {
  const totals = new Map();
  for (const { readings } of columns) {
    for (const [name, value] of readings.get(panel)?.values ?? []) {
      if (value || !below) totals.set(name, (totals.get(name) ?? 0) + value);
    }
  }
  return totals;
}

/** Return a value of a panel in a column; as a mean, per what is counted below. */
function readingIn({ readings }, { panel, below }, key) {
  const own = readings.get(panel);
  if (!own) return null;
  const value = own.values.get(key) ?? 0;
  if (!below) return value / own.seconds;
  const requests = readings.get(below)?.values.get(key);
  return requests && value ? value / requests : null;
}

function metric(label, value, options) {
  return {
    label, value, by: ALL_DIMENSIONS, option: watchLinesOption, reading: linesReading, ...options,
  };
}

/** Return the depth of each disk that is shown, summed up over all columns. */
function flightTotals(columns, filters) {
  const totals = new Map();
  for (const column of columns) {
    for (const [disk, mean] of column.in_flight) {
      if (filters.disk && filters.disk !== disk) continue;
      totals.set(disk, (totals.get(disk) ?? 0) + mean);
    }
  }
  return totals;
}

/** Return the value of a key in a column; null where there is none. */
function valueIn(plot, column, key) {
  const { metric: name } = plot.spec;
  if (!column?.seconds) return null;
  if (METRICS[name].panel) return readingIn(column, METRICS[name], key);
  if (name === 'flight') return (column.in_flight.get(key) ?? 0) / column.seconds;
  const sum = key === REST ? restOf(column.sums, plot.keys) : column.sums.get(key);
  if (!sum) return METRICS[name].value === undefined || METRICS[name].log ? null : 0;
  return METRICS[name].value(sum, column.seconds);
}

function watchLinesOption(plot, width_px, colours) {
  const { columns, totals } = plot.data;
  const [keys, hasRest] = drawnKeys(totals, plot.spec.by);
  plot.keys = keys;
  const drawing = METRICS[plot.spec.metric];
  const isOfRequests = plot.spec.metric !== 'flight' && !drawing.panel;
  const names = hasRest && isOfRequests ? [...keys, REST] : keys;
  plot.series = names.map((name) => ({
    name, values: columns.map((column) => valueIn(plot, column, name)),
  }));
  const y = valueAxis(plot.series.flatMap(({ values }) => values), drawing);
  const placed = (value) => (value === null ? null : position(y, Math.max(value, y.least)));
  const style = (name) => plot.styleOf(name, colours);
  return {
    ...baseOption(colours),
    grid: [plotBox(width_px, plot.height_px)],
    xAxis: [clockAxis(plot.range, width_px, colours)],
    yAxis: [axisOption(y, colours, { gridIndex: 0, horizontal: false, nameShown: false })],
    series: [
      ...plot.series.map(({ name, values }) => ({
        type: 'line',
        name,
        silent: true,
        symbol: 'none',
        animation: false,
        itemStyle: { color: style(name).color },
        lineStyle: { color: style(name).color, type: style(name).dash, width: 1.8 },
        data: columns.map(({ begun, ended }, index) => ({
          value: [(begun + ended) / 2, placed(values[index])],
          // A value between gaps has no line.
          ...(isAlone(values, index) ? { symbol: 'circle', symbolSize: 5 } : {}),
        })),
      })),
      happenedSeries(plot, colours, {
        low: position(y, y.low), high: position(y, y.high), named: false,
      }),
    ],
  };
}

/** Return whether a value has none next to it. */
const isAlone = (values, index) => (values[index] ?? null) !== null
  && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;

/** Return the vertical axis of values: from 0, or of whole decades. */
function valueAxis(values, { log, binary, format }) {
  const known = values.filter((value) => value !== null);
  const most = known.reduce((a, b) => Math.max(a, b), 0);
  if (log) {
    const above = known.filter((value) => value > 0);
    const least = above.reduce((a, b) => Math.min(a, b), most || 1e6);
    const low = 10 ** Math.floor(Math.log10(least || 1));
    const high = 10 ** Math.max(Math.ceil(Math.log10((most || 1) * 1.001)), Math.log10(low) + 1);
    const ticks = [];
    for (let value = low; value <= high * 1.001; value *= 10) ticks.push([value, format(value)]);
    return { scale: 'log', low, high, least: low, ticks };
  }
  const base = binary ? 1024 ** Math.floor(Math.log(Math.max(most, 1)) / Math.log(1024)) : 1;
  const step = Math.max(roundStep((most || 1) / base / 4) * base, binary ? 1 : 0);
  const high = Math.max(Math.ceil((most || 1) / step), 1) * step;
  const ticks = [];
  for (let value = 0; value <= high * 1.001; value += step) {
    ticks.push([value, value ? format(value) : '0']);
  }
  return { scale: 'linear', low: 0, high, least: 0, ticks };
}

/** Return the legend: each line with its value at a time; a click shows these requests alone. */
function linesReading(plot, at) {
  const column = plot.columnAt(at);
  const drawing = METRICS[plot.spec.metric];
  const colours = view.colours;
  const time = column ? [`${clockTime(column.begun)}: `] : [];
  const entries = (plot.series ?? []).map(({ name }) => {
    const value = valueIn(plot, column, name);
    const text = value === null ? '–' : drawing.format(value);
    const button = textElement('button', `${name} ${text}`);
    button.type = 'button';
    button.title = `Show ${name} alone`;
    const line = document.createElement('span');
    line.textContent = '━ ';
    line.style.color = plot.styleOf(name, colours).color;
    button.prepend(line);
    button.disabled = name === REST || plot.spec.by === 'latency' || Boolean(drawing.panel);
    button.addEventListener('click', () => view.filter(plot.spec.by, name));
    return button;
  });
  return [...time, ...entries];
}
