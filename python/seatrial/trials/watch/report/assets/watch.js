// The page: what is shown of which time, and where the data come from: the server's events, or the
// file itself.

const SPANS = [[30, '30 s'], [60, '1 min'], [120, '2 min'], [300, '5 min'], [900, '15 min'],
  [3600, '1 hour']];
const SPAN_MIN_S = 2;
const TABLES_MS_PER_S = 25;
const NEWS_MS = 300; // the least time between two drawings of what came meanwhile
const TILE_OPERATIONS = { read: 'reads', write: 'writes', flush: 'flushes' };

/** What is shown: of which time, which requests, where the cursor is. */
const view = {
  watched: null,
  plots: [],
  filters: {},
  span_s: 120,
  to: null, // the end of the time shown; null follows the last interval
  at: null,
  cell: null,
  colours: null,
  skipped: 0, // events that the server no longer had when the connection came back
  isPaused: false,

  get range() {
    const to = this.to ?? this.watched.to;
    return { from: to - this.span_s, to };
  },

  pointAt(at) {
    this.at = at;
    this.plots.forEach((plot) => plot.showReading());
  },

  zoom(from, to) {
    this.span_s = Math.max(to - from, SPAN_MIN_S, 2 * this.watched.startup.every_s);
    this.to = to;
    redraw();
  },

  follow() {
    this.to = this.watched.startup.saved === undefined ? null : this.watched.to;
    this.setPaused(false);
    redraw();
  },

  setPaused(isPaused) {
    this.isPaused = isPaused;
    const button = document.getElementById('pause');
    if (isPaused && this.to === null) this.to = this.watched.to;
    if (!isPaused && this.watched.startup.saved === undefined) this.to = null;
    if (!button) return;
    button.textContent = isPaused ? 'Resume' : 'Pause';
    button.setAttribute('aria-pressed', String(isPaused));
  },

  filter(name, value) {
    this.setFilters({ ...this.filters, [name]: value });
  },

  setFilters(filters) {
    this.filters = filters;
    this.openCell(null);
    redraw();
  },

  openCell(cell) {
    this.cell = cell;
    showCell(cell);
  },
};

/** Say something in a line of its own. */
function say(text) {
  document.getElementById('message').textContent = text;
}

/**
 * Draw everything, at most once per frame. Tables are of the whole time that is shown: where only
 * an interval has come, they are drawn again after a share of that time.
 */
let isDue = false;
let tables_ms = 0;
let drawn_ms = 0;
function redraw({ isNews = false } = {}) {
  if (!isNews) tables_ms = 0;
  if (isDue) return;
  isDue = true;
  const wait_ms = isNews ? drawn_ms + NEWS_MS - performance.now() : 0;
  const frame = () => requestAnimationFrame(drawAll);
  if (wait_ms > 0) setTimeout(frame, wait_ms);
  else frame();
}

function drawAll(now_ms) {
  isDue = false;
  drawn_ms = performance.now();
  if (!view.watched) return;
  view.colours = currentColours();
  drawState();
  view.plots.forEach((plot) => plot.draw());
  if (tables_ms === 0 || now_ms - tables_ms > view.span_s * TABLES_MS_PER_S) {
    drawBreakdown();
    tables_ms = now_ms;
  }
  drawEvents();
  drawRun();
  document.documentElement.dataset.drawn = String(view.watched.intervals.length);
}

/** Draw the figures at the top, the filters, and what the controls say. */
function drawState() {
  const { from, to } = view.range;
  document.getElementById('range').textContent = `${clockTime(from)} to ${clockTime(to)}`;
  const spans = document.getElementById('span');
  const known = SPANS.some(([seconds]) => seconds === view.span_s);
  const own = known ? [] : [[view.span_s, formatDuration(view.span_s * 1e9, 2)]];
  spans.replaceChildren(...[...own, ...SPANS].map(
    ([seconds, text]) => new Option(text, seconds, false, seconds === view.span_s),
  ));
  drawFilters();
  drawFigures();
  drawHeadroom();
  drawLosses();
}

function drawFilters() {
  const chips = Object.entries(view.filters).map(([name, value]) => {
    const text = name === 'latency' ? bandName(value) : value;
    const chip = textElement('button', `${DIMENSIONS[name].label}: ${text} ✕`);
    chip.type = 'button';
    chip.className = 'chip';
    chip.title = 'Remove this filter';
    chip.addEventListener('click', () => {
      const { [name]: removed, ...rest } = view.filters;
      view.setFilters(rest);
    });
    return chip;
  });
  const element = document.getElementById('filters');
  element.replaceChildren(...(chips.length ? ['Only requests with', ...chips, 'are shown'] : []));
}

function drawFigures() {
  const { last } = view.watched;
  if (!last) return;
  const tile = (label, value, rest = '') => {
    const made = document.createElement('li');
    made.className = 'tile';
    const parts = [['label', label], ['value', value], ['small', rest]];
    made.append(...parts.map(([name, text]) => Object.assign(textElement('p', text), {
      className: name,
    })));
    return made;
  };
  const tiles = Object.entries(TILE_OPERATIONS).map(([operation, label]) => {
    const sum = new Sum();
    last.groups.filter((group) => group.operation === operation && isShown(group, view.filters))
      .forEach((group) => sum.add(group, view.filters.latency, true));
    const [p50, p99] = [sum.percentile(0.5), sum.percentile(0.99)];
    const isWhole = sum.requests && !view.filters.latency;
    const mean = isWhole ? `mean ${formatDuration(sum.ns / sum.requests)}` : '';
    const times = p99 === null ? mean : `p50 ${formatDuration(p50)}, p99 ${formatDuration(p99)}`;
    return tile(label, `${formatRate(sum.requests / last.seconds)}/s`, times);
  });
  const depth = Object.values(last.in_flight).reduce((sum, mean) => sum + mean, 0);
  const open = [...view.watched.stalls.values()].filter(({ is_over }) => !is_over);
  const stalled = open.length
    ? tile('stalled now', formatDuration(open[0].length_s * 1e9, 2),
      `${open[0].disk || 'disk unknown'}: ${causeName(open[0])}`)
    : tile('stalls', String(view.watched.stalls.size), 'seen by this page');
  if (open.length) stalled.classList.add('poor');
  document.getElementById('figures').replaceChildren(
    ...tiles,
    tile('in flight', formatNumber(depth), 'mean of the last interval'),
    stalled,
    tile('watching uses', formatShare(last.cost), 'of a processor, besides its cost per request'),
  );
}

/** Say where the load of each disk is on its load line, and which disks have none. */
function drawHeadroom() {
  const { last, startup } = view.watched;
  const { without_line } = startup;
  const texts = [...(last?.headroom ?? []), ...(without_line ? [without_line] : [])];
  document.getElementById('headroom').replaceChildren(...texts.map(codedEntry));
}

/** Return an entry of a list; what stands between backticks is code. */
function codedEntry(text) {
  const entry = document.createElement('li');
  const parts = text.split('`');
  entry.append(...parts.map((part, index) => (index % 2 ? textElement('code', part) : part)));
  return entry;
}

function drawLosses() {
  const { last } = view.watched;
  if (!last) return;
  const { unmatched, uncounted, unrecorded, missed, unseen_bytes, counted_bytes } = last.lost;
  const parts = [
    [missed, 'event', 'not handed over by the kernel'],
    [unmatched, 'request', 'not counted: issued before the start, or identical to another'],
    [uncounted, 'request', "not counted: the kernel's tables were full"],
    [unrecorded, 'request', 'not assigned or recorded: they came too fast'],
  ].filter(([count]) => count).map(([count, what, text]) => `${plural(count, what)} ${text}`);
  if (unseen_bytes > (counted_bytes + unseen_bytes) / 1000) {
    parts.push(`${formatSize(unseen_bytes)} of the disks' own counters not seen`);
  }
  if (view.skipped) {
    parts.push(`${plural(view.skipped, 'event')} missed by this page and no longer kept`);
  }
  const since = view.watched.from - view.watched.startup.started_at;
  if (since > 2 * view.watched.startup.every_s + 2) {
    parts.push(`history before ${clockTime(view.watched.from)} is no longer kept`);
  }
  document.getElementById('losses').textContent = parts.length
    ? `Since the start: ${parts.join('; ')}.` : 'Since the start: nothing lost.';
}

/** Return the charts, filters and time as a worksheet. */
const currentWorksheet = () => ({
  seatrial_worksheet: WORKSHEET_VERSION,
  charts: view.plots.map(({ spec }) => ({ ...spec })),
  filters: { ...view.filters },
  span_s: view.span_s,
});

/** Show what a worksheet says. */
function applyWorksheet({ charts, filters, span_s }) {
  view.plots.forEach((plot) => plot.close());
  view.plots = charts.map((spec) => new Plot({ ...spec }, changePlot));
  view.filters = filters;
  view.span_s = span_s;
  showPlots();
}

function showPlots() {
  const add = document.getElementById('add');
  add.disabled = view.plots.length >= CHARTS_MAX; // more could not be opened again
  add.title = add.disabled ? `A worksheet has at most ${CHARTS_MAX} charts.` : '';
  document.getElementById('charts').replaceChildren(...view.plots.map(({ element }) => element));
  redraw();
}

/** Take a changed chart over, or remove it. */
function changePlot(plot, isRemoved = false) {
  const index = view.plots.indexOf(plot);
  plot.close();
  view.plots.splice(index, 1, ...(isRemoved ? [] : [new Plot(plot.spec, changePlot)]));
  showPlots();
}

function startControls() {
  const on = (id, act, event = 'click') => {
    document.getElementById(id)?.addEventListener(event, act);
  };
  on('span', ({ target }) => {
    view.span_s = Number(target.value);
    redraw();
  }, 'change');
  const move = (share) => {
    const { from, to } = view.range;
    view.zoom(from + share * (to - from), to + share * (to - from));
  };
  const scale = (factor) => {
    const { from, to } = view.range;
    const middle = (from + to) / 2;
    view.zoom(middle - ((to - from) / 2) * factor, middle + ((to - from) / 2) * factor);
  };
  on('pause', () => {
    view.setPaused(!view.isPaused);
    redraw();
  });
  on('earlier', () => move(-0.5));
  on('later', () => move(0.5));
  on('narrower', () => scale(0.5));
  on('wider', () => scale(2));
  on('latest', () => view.follow());
  on('add', () => {
    view.plots.push(new Plot({ metric: 'rate', operation: '', by: 'operation' }, changePlot));
    showPlots();
  });
  on('report', () => saveReport(currentWorksheet).catch((error) => say(error.message)));
  on('marker', async (event) => {
    event.preventDefault();
    const field = document.getElementById('marktext');
    const response = await fetch('/mark', { method: 'POST', body: field.value });
    say(await response.text());
    if (response.ok) field.value = '';
  }, 'submit');
}

/** Begin with what a server or a file says of the watch. */
function begin(startup, worksheet) {
  const isFirst = view.watched === null;
  view.watched = new Watched(startup);
  if (!isFirst) return;
  startWorksheets(applyWorksheet, currentWorksheet);
  applyWorksheet(worksheet ?? standardWorksheet(startup));
}

function setState(text, name) {
  const state = document.getElementById('state');
  state.textContent = text;
  state.className = name;
}

/** Follow a server: its events come with numbers, and a new connection goes on from the last. */
function follow() {
  const events = new EventSource('/events');
  let hasEnded = false;
  let isLate = false; // it was over when this page came
  events.addEventListener('startup', ({ data }) => {
    const { resumed, has_ended, ...startup } = JSON.parse(data);
    isLate = has_ended;
    if (!resumed || !view.watched) begin(startup);
    setState('live', 'live');
  });
  for (const sort of ['interval', 'stall', 'mark', 'run']) {
    events.addEventListener(sort, ({ data }) => {
      view.watched.add(sort, JSON.parse(data));
      // A hidden page draws nothing; what it gets meanwhile is not lost.
      if (!view.isPaused && !document.hidden) redraw({ isNews: true });
    });
  }
  events.addEventListener('skipped', ({ data }) => {
    view.skipped += JSON.parse(data).events;
  });
  events.addEventListener('ended', ({ data }) => {
    hasEnded = true;
    events.close();
    const { run } = view.watched.startup;
    setState(run ? 'ended' : 'the watch has ended', run ? 'ended' : 'lost');
    if (!run) return;
    redraw();
    endRun(JSON.parse(data), !isLate && !view.isPaused && view.to === null && view.cell === null);
  });
  events.addEventListener('error', () => {
    if (hasEnded) return;
    const isFinal = events.readyState === EventSource.CLOSED;
    setState(isFinal ? 'not connected: reload the page' : 'connection lost, trying again', 'lost');
  });
  document.addEventListener('visibilitychange', () => redraw());
}

(async () => {
  document.documentElement.dataset.scripts = 'on';
  const data = JSON.parse(await unpacked('report-data'));
  startTheme(redraw);
  startControls();
  new ResizeObserver(() => redraw()).observe(document.getElementById('charts'));
  if (data.mode === 'live') {
    follow();
    return;
  }
  begin({ ...data.startup, saved: data.saved }, checkedWorksheet(data.worksheet));
  for (const [sort, event] of data.events) view.watched.add(sort, event);
  view.to = view.watched.to;
  view.span_s = Math.max(view.watched.to - view.watched.from, SPAN_MIN_S);
  redraw();
})();
