// The run that is measured meanwhile: which test is on, its figures, and the tests before it.

const SAMPLES_MAX = 5000;
const TESTS_SHOWN_MAX = 100;
const TEST_NAME_PX_MIN = 48;
const TEST_LINES_PX_MIN = 16; // narrower tests have a tick instead of lines
const TEST_TICK_PX = 6;

/** What a run has said of its progress; docs/json.md describes its events. */
class Run {
  constructor() {
    this.samples = [];
    this.current = null;
    this.step = 'Preparing';
    this.text = '';
    this.left_s = null;
    this.left_at = 0;
    this.ending = null;
  }

  add(event) {
    const { at } = event;
    if (event.left_s_max !== null) [this.left_s, this.left_at] = [event.left_s_max, at];
    if (event.event === 'step') {
      this.step = event.step;
      this.text = '';
    } else if (event.event === 'started') {
      this.begin(event);
    } else if (event.event === 'reading') {
      if (event.test) this.current ??= this.begin(event); // its beginning is no longer kept
      this.text = event.text;
    } else if (event.event === 'ended') {
      Object.assign(this.current ?? this.begin(event), {
        to: at, per_s: event.completed_per_s, stalls: event.stalls,
      });
      this.current = null;
      this.step = `${event.test} has ended`;
      this.text = '';
    }
  }

  begin({ at, test, round }) {
    this.text = '';
    this.current = { from: at, to: null, test, round, per_s: null, stalls: 0 };
    this.samples.push(this.current);
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
    return this.current;
  }

  samplesBetween(from, to) {
    return this.samples.filter((each) => each.from < to && (each.to ?? Infinity) >= from);
  }
}

/** Draw which test is on, and the list of tests. */
function drawRun() {
  const { run, to } = view.watched;
  if (!view.watched.startup.run) return;
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  const { current, ending } = run;
  const isOver = ending !== null || view.watched.startup.saved !== undefined;
  put('run-test', current ? `Round ${current.round}: ${current.test}` : run.step);
  const left_s = run.left_s === null ? null : Math.max(0, run.left_s - (to - run.left_at));
  put('run-left', !left_s || isOver ? '' : `at most ${formatLeft(left_s)} left`);
  put('run-figures', run.text);
  document.querySelector('#run .now').hidden = ending !== null;
  document.getElementById('run-figures').hidden = ending !== null;
  drawTests(run.samples);
}

/** Return a time that is left, in whole seconds or minutes. */
function formatLeft(left_s) {
  if (left_s < 120) return `${Math.ceil(left_s)} s`;
  return `${Math.ceil(left_s / 60)} min`;
}

function drawTests(samples) {
  const element = document.querySelector('#tests > div');
  const shown = samples.slice(-TESTS_SHOWN_MAX).reverse();
  if (!shown.length) {
    element.replaceChildren(textElement('p', 'None so far.'));
    return;
  }
  const table = document.createElement('table');
  if (samples.length > shown.length) {
    table.createCaption().textContent = `The last ${shown.length} of ${samples.length}`;
  }
  const head = table.createTHead().insertRow();
  for (const text of ['Begun', 'Test', 'Round', 'Length', 'Per second', 'Stalls']) {
    const className = text === 'Test' ? 'word' : '';
    head.append(Object.assign(textElement('th', text), { scope: 'col', className }));
  }
  const body = table.createTBody();
  for (const sample of shown) {
    const { from, test, round, per_s, stalls } = sample;
    const to = sample.to ?? view.watched.to;
    const when = Object.assign(textElement('button', clockTime(from)), { type: 'button' });
    when.title = 'Zoom to this test';
    when.addEventListener('click', () => view.zoom(from - 1, to + 1));
    const begun = document.createElement('td');
    begun.append(when);
    const name = Object.assign(textElement('td', test), { className: 'word' });
    const texts = [
      String(round),
      sample.to === null ? 'running' : formatDuration((to - from) * 1e9, 2),
      per_s === null ? 'not over' : formatRate(per_s),
      sample.to === null ? 'not over' : String(stalls),
    ];
    body.insertRow().append(begun, name, ...texts.map((text) => textElement('td', text)));
  }
  element.replaceChildren(scrolled(table));
}

/** Return the lines at the beginning and the end of a test, with its name where there is room. */
function sampleShapes(sample, api, { low, high, from, to, named }, colours) {
  const { from: begun, to: ended, test } = sample;
  const [left, top] = api.coord([Math.max(begun, from), high]);
  const [right, floor] = api.coord([Math.min(ended ?? to, to), low]);
  const isWide = right - left >= TEST_LINES_PX_MIN;
  const bottom = isWide ? floor : top + TEST_TICK_PX;
  const line = (at, lineDash) => {
    if (at === null || at < from || at > to) return [];
    const [x] = api.coord([at, high]);
    return [{
      type: 'line', shape: { x1: x, x2: x, y1: top, y2: bottom },
      style: { stroke: colours.muted, lineWidth: 1, opacity: 0.8, lineDash },
    }];
  };
  const width = right - left - 8;
  const name = {
    type: 'text', x: left + 4, y: top + 34,
    style: {
      text: test, width, overflow: 'truncate', ellipsis: '…', fill: colours.ink,
      stroke: colours.paper, lineWidth: 3, font: `11px ${FONT}`,
    },
  };
  const isNamed = named && width >= TEST_NAME_PX_MIN;
  const end = isWide ? line(ended, [2, 3]) : [];
  return [...line(begun, [1, 0]), ...end, ...(isNamed ? [name] : [])];
}

/** Say how the run has ended; a page that follows it turns into its report. */
function endRun({ sentence, has_report }, isFollowing) {
  const { run } = view.watched;
  run.ending = sentence;
  const element = document.getElementById('run-ended');
  element.hidden = false;
  element.replaceChildren(`${sentence} `);
  if (has_report) {
    const link = Object.assign(textElement('a', 'See its report'), { href: '/run' });
    element.append(link, ', which is here until the command ends.');
  }
  drawRun();
  if (has_report && isFollowing) location.assign('/run');
}
