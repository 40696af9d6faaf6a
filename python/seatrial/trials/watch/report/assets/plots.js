// One chart of the page: its heading with lists to choose from, its legend, and what all share: the
// axis of time, the cursor, dragging to zoom, and the lines of stalls and markers.

const PLOT_LEFT_PX = 62;
const PLOT_RIGHT_PX = 14;
const PLOT_TOP_PX = 8;
const PLOT_BOTTOM_PX = 26;
const DRAG_PX = 6;
const LATE_SHARE = 0.8; // a label that begins later is at the left of its time
const TICK_PX = 84;
const TICK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600];

/** Return a Unix time as hours, minutes and seconds of this machine. */
function clockTime(at_s, digits = 0) {
  const text = new Date(at_s * 1000).toTimeString().slice(0, 8);
  if (!digits) return text;
  return text + (at_s % 1).toFixed(digits).slice(1);
}

/** Return the time of a column. */
function columnTime({ from, to }) {
  const digits = to - from < 1 ? 1 : 0;
  return `${clockTime(from, digits)} to ${clockTime(to, digits)}`;
}

/** Return the option of the axis of time, the same in every chart. */
function clockAxis(range, width_px, colours) {
  const room = Math.max(2, Math.floor((width_px - PLOT_LEFT_PX) / TICK_PX));
  const step = TICK_STEPS_S.find((each) => (range.to - range.from) / each <= room) ?? 86_400;
  const ticks = [];
  for (let at = Math.ceil(range.from / step) * step; at <= range.to; at += step) {
    ticks.push([at, clockTime(at)]);
  }
  const axis = { name: '', scale: 'linear', low: range.from, high: range.to, ticks };
  return axisOption(axis, colours, { gridIndex: 0, horizontal: true, nameShown: false });
}

/** A chart of the page. */
class Plot {
  constructor(spec, change) {
    this.spec = spec;
    this.change = change;
    this.styles = new Map();
    this.kept = {};
    this.element = document.createElement('figure');
    this.element.className = `chart${spec.metric === 'heat' ? ' heat' : ''}`;
    this.head = document.createElement('div');
    this.head.className = 'head';
    this.legend = document.createElement('p');
    this.legend.className = 'reading-now';
    this.plot = document.createElement('div');
    this.plot.className = 'plot';
    this.cursor = marked('cursor');
    this.dragged = marked('drag');
    this.element.append(this.head, this.legend, this.plot);
    this.makeHead();
    this.listen();
  }

  /** Return the height of the drawing (px). */
  get height_px() {
    return this.spec.metric === 'heat' ? 230 : 190;
  }

  makeHead() {
    const chooser = (label, entries, chosen, use) => {
      const list = document.createElement('select');
      list.setAttribute('aria-label', label);
      for (const [value, text] of entries) {
        list.append(new Option(text, value, value === chosen, value === chosen));
      }
      list.addEventListener('change', () => {
        use(list.value);
        this.change(this);
      });
      return list;
    };
    const { run } = view.watched.startup;
    const metrics = Object.entries(METRICS).filter(([, { isOfRun }]) => run || !isOfRun)
      .map(([name, { label }]) => [name, label]);
    const dimensions = Object.entries(DIMENSIONS)
      .filter(([name]) => METRICS[this.spec.metric].by.includes(name)
        && (run || name !== 'client'))
      .map(([name, { label }]) => [name, `by ${label}`]);
    const operations = [['', 'all operations'], ...WATCHED_OPERATIONS.map((each) => [each, each])];
    const remove = textElement('button', '✕');
    remove.type = 'button';
    remove.setAttribute('aria-label', `Remove the chart ${METRICS[this.spec.metric].label}`);
    remove.addEventListener('click', () => this.change(this, true));
    const what = chooser('What is drawn', metrics, this.spec.metric, (value) => {
      this.spec.metric = value;
      const { by } = METRICS[value];
      if (!by.includes(this.spec.by)) this.spec.by = by[0] ?? '';
    });
    what.className = 'what';
    const operation = chooser('Operation', operations, this.spec.operation ?? '', (value) => {
      this.spec.operation = value;
    });
    this.head.replaceChildren(
      what,
      ...(METRICS[this.spec.metric].panel ? [] : [operation]),
      ...(dimensions.length ? [chooser('Broken down by', dimensions, this.spec.by, (value) => {
        this.spec.by = value;
      })] : []),
      remove,
    );
  }

  /** Return the filters of the page and the chart's own operation. */
  get filters() {
    const { operation } = this.spec;
    return operation ? { ...view.filters, operation } : view.filters;
  }

  /** Return why there is nothing to draw; empty where there is. */
  emptiness(data) {
    const { filters } = this;
    const { metric } = this.spec;
    const { panel } = METRICS[metric];
    if (panel) {
      if (data.totals.size) return '';
      if (METRICS[metric].isOfRun) return 'No test had such a figure in this time.';
      if (panel.startsWith('group_') && !view.watched.startup.has_group) {
        return 'This needs --pid or a local --url, and a control group with the I/O controller.';
      }
      const isOfServer = panel.startsWith('server_');
      if (isOfServer && !view.watched.startup.has_server) return 'This needs --url.';
      if (METRICS[metric].below) return 'The server does not time its requests (track_io_timing).';
      return `${isOfServer ? 'The server' : 'The kernel'} did not say it in this time.`;
    }
    if (view.filters.operation && this.spec.operation
      && view.filters.operation !== this.spec.operation) {
      return `Only ${view.filters.operation} requests are shown.`;
    }
    if (filters.latency && METRICS[metric].whole) {
      return 'This is not counted by latency: the filter on latency must be removed to see it.';
    }
    if (METRICS[metric].rows && view.watched.startup.level === 1) {
      return 'Level 1 has means only: neither percentiles nor a heat map.';
    }
    if (data.totals.size) return '';
    const what = this.spec.operation ? `${this.spec.operation} requests` : 'requests';
    return `No ${what} completed in this time.`;
  }

  draw() {
    if (!this.plot.clientWidth) return;
    const { metric, by } = this.spec;
    const drawing = METRICS[metric];
    this.range = view.range;
    this.data = columnsOf(view.watched, this.range, {
      filters: this.filters, by: drawing.by.length ? by : '', rowsWanted: drawing.rows,
    }, this.kept);
    if (metric === 'flight') this.data.totals = flightTotals(this.data.columns, this.filters);
    if (drawing.panel) this.data.totals = readingTotals(this.data.columns, drawing);
    const nothing = this.emptiness(this.data);
    if (nothing) {
      this.clear(nothing);
      return;
    }
    const width_px = this.plot.clientWidth;
    const option = drawing.option(this, width_px, view.colours);
    this.open(width_px);
    this.chart.setOption(option, { notMerge: true });
    this.showReading();
  }

  open(width_px) {
    if (!this.chart) {
      this.plot.replaceChildren();
      this.plot.style.height = `${this.height_px}px`;
      this.chart = echarts.init(this.plot, null, {
        renderer: 'canvas', width: width_px, height: this.height_px,
      });
      this.plot.append(this.cursor, this.dragged);
    } else if (width_px !== this.drawn_px) {
      this.chart.resize({ width: width_px, height: this.height_px });
    }
    this.drawn_px = width_px;
  }

  clear(text) {
    this.close();
    this.legend.replaceChildren();
    this.plot.replaceChildren(Object.assign(textElement('p', text), { className: 'nothing' }));
  }

  close() {
    this.chart?.dispose();
    this.chart = undefined;
    this.plot.style.height = '';
  }

  /** Return the time at a point of the drawing (px from its left). */
  timeAt(x_px) {
    const width_px = this.drawn_px - PLOT_LEFT_PX - PLOT_RIGHT_PX;
    const share = Math.min(Math.max((x_px - PLOT_LEFT_PX) / width_px, 0), 1);
    return this.range.from + share * (this.range.to - this.range.from);
  }

  /** Return the position of a time (px from the left). */
  placeOf(at) {
    const width_px = this.drawn_px - PLOT_LEFT_PX - PLOT_RIGHT_PX;
    return PLOT_LEFT_PX + ((at - this.range.from) / (this.range.to - this.range.from)) * width_px;
  }

  /** Show the cursor, and what was then; without a time what was last. */
  showReading() {
    if (!this.chart) return;
    const { at } = view;
    const isInside = at !== null && at >= this.range.from && at <= this.range.to;
    this.cursor.hidden = !isInside;
    if (isInside) this.cursor.style.left = `${this.placeOf(at)}px`;
    this.legend.replaceChildren(...METRICS[this.spec.metric].reading(this, isInside ? at : null));
  }

  /** Return the column of a time; without one the last that is complete. */
  columnAt(at) {
    const { columns } = this.data;
    if (at !== null) return columns.find(({ begun, ended }) => at >= begun && at < ended) ?? null;
    return columns.findLast(({ seconds }) => seconds > 0) ?? null;
  }

  listen() {
    const x = (event) => event.clientX - this.plot.getBoundingClientRect().left;
    const y = (event) => event.clientY - this.plot.getBoundingClientRect().top;
    let begun = null;
    this.plot.addEventListener('pointerdown', (event) => {
      if (this.chart && event.button === 0) begun = x(event);
    });
    this.plot.addEventListener('pointermove', (event) => {
      if (!this.chart) return;
      this.pointer = [x(event), y(event)];
      view.pointAt(this.timeAt(x(event)));
      const [low, high] = [Math.min(begun, x(event)), Math.max(begun, x(event))];
      this.dragged.hidden = begun === null || high - low < DRAG_PX;
      this.dragged.style.left = `${low}px`;
      this.dragged.style.width = `${high - low}px`;
    });
    this.plot.addEventListener('pointerleave', () => {
      this.pointer = null;
      view.pointAt(null);
    });
    this.plot.addEventListener('pointercancel', () => {
      begun = null;
      this.dragged.hidden = true;
    });
    window.addEventListener('pointerup', (event) => {
      if (begun === null || !this.chart) return;
      const [from, to] = [begun, x(event)];
      begun = null;
      this.dragged.hidden = true;
      if (Math.abs(to - from) >= DRAG_PX) {
        const [low, high] = [this.timeAt(Math.min(from, to)), this.timeAt(Math.max(from, to))];
        view.zoom(low, high);
      } else if (this.spec.metric === 'heat') view.openCell(heatCell(this, from, y(event)));
    });
  }

  /** Return the style of a key: the same as long as the chart is there. */
  styleOf(key, colours) {
    const fixed = this.spec.by === 'operation' ? WATCHED_OPERATIONS.indexOf(key) : -1;
    if (!this.styles.has(key)) this.styles.set(key, fixed < 0 ? this.styles.size : fixed);
    return key === REST
      ? { color: colours.muted, dash: [2, 2] } : lineStyle(this.styles.get(key), colours);
  }
}

function marked(name) {
  const made = document.createElement('div');
  made.className = name;
  made.hidden = true;
  return made;
}

/** Return the shading of stalls and the lines of markers. */
function happenedSeries(plot, colours, { low, high, named }) {
  const { from, to } = plot.range;
  const stalls = view.watched.stallsBetween(from, to);
  const marks = view.watched.marksBetween(from, to);
  const samples = view.watched.run.samplesBetween(from, to);
  const shapes = (api) => [
    ...samples.flatMap((each) => sampleShapes(each, api, { low, high, from, to, named }, colours)),
    ...stalls.flatMap((stall) => stallShape(stall, api, { low, high, from, to, named }, colours)),
    ...marks.flatMap((mark) => markShape(mark, api, { low, high, from, to, named }, colours)),
  ];
  return drawnSeries(shapes, { z: 6 });
}

function stallShape(stall, api, { low, high, from, to, named }, colours) {
  const [left, top] = api.coord([Math.max(stall.started_at, from), high]);
  const [right, bottom] = api.coord([Math.min(stall.started_at + stall.length_s, to), low]);
  const width = Math.max(right - left, 2);
  const cause = causeName(stall);
  const length = formatDuration(stall.length_s * 1e9, 2);
  const text = `${stall.is_over ? 'stall' : 'stalled for'} ${length}`;
  const isLate = stall.started_at > from + (to - from) * LATE_SHARE;
  const shape = { x: left, y: top, width, height: bottom - top };
  return [
    { type: 'rect', shape, style: { fill: colours.alarm, opacity: 0.16 } },
    ...(named ? [{
      type: 'text', x: isLate ? left - 3 : left + 3, y: top + 3,
      style: {
        align: isLate ? 'right' : 'left',
        text: `${text}\n${cause}${stall.disk ? `, ${stall.disk}` : ''}`, fill: colours.ink,
        stroke: colours.paper, lineWidth: 3, lineHeight: 14, font: `600 11px ${FONT}`,
      },
    }] : []),
  ];
}

function markShape({ at, text }, api, { low, high, from, to, named }, colours) {
  const isLate = at > from + (to - from) * LATE_SHARE;
  const [x, top] = api.coord([at, high]);
  const [, bottom] = api.coord([at, low]);
  return [
    {
      type: 'line', shape: { x1: x, x2: x, y1: top, y2: bottom },
      style: { stroke: colours.accent, lineWidth: 1.6, lineDash: [5, 3] },
    },
    ...(named ? [{
      type: 'text', x: isLate ? x - 4 : x + 4, y: bottom - 16,
      style: {
        align: isLate ? 'right' : 'left', text, fill: colours.accent, stroke: colours.paper,
        lineWidth: 3, font: `600 11px ${FONT}`,
      },
    }] : []),
  ];
}
