// Worksheets: charts, filters and the time shown, saved by name in this browser, and as a file.

const WORKSHEETS_KEY = 'seatrial-watch-worksheets';
const WORKSHEET_VERSION = 1;
const CHARTS_MAX = 24;
const STANDARD = 'Standard';

const STANDARD_WORKSHEET = {
  seatrial_worksheet: WORKSHEET_VERSION,
  charts: [
    { metric: 'heat', operation: 'read', by: '' },
    { metric: 'heat', operation: 'write', by: '' },
    { metric: 'heat', operation: 'flush', by: '' },
    { metric: 'rate', operation: '', by: 'operation' },
    { metric: 'p99', operation: '', by: 'operation' },
    { metric: 'throughput', operation: '', by: 'operation' },
    { metric: 'rate', operation: '', by: 'process' },
  ],
  filters: {},
  span_s: 120,
};

/** At level 1 there are means instead of distributions; with a database, tables first. */
function standardWorksheet(startup) {
  const sheet = structuredClone(STANDARD_WORKSHEET);
  if (startup.level === 1) {
    sheet.charts = ['rate', 'mean', 'throughput', 'flight'].map((metric) => ({
      metric, operation: '', by: metric === 'flight' ? 'disk' : 'operation',
    }));
  }
  if (startup.run && startup.level > 1) {
    sheet.charts.find(({ by }) => by === 'process').by = 'client';
  }
  if (!startup.has_disks) sheet.charts = [];
  const add = (metric) => sheet.charts.push({ metric, operation: '', by: '' });
  if (startup.run) {
    const own = ['runRate', 'runP99'].map((metric) => ({ metric, operation: '', by: '' }));
    const isHeat = ({ metric }) => metric === 'heat';
    sheet.charts.splice(sheet.charts.findLastIndex(isHeat) + 1, 0, ...own);
  }
  add('pressure');
  if (startup.has_group) ['groupThroughput', 'groupRate'].forEach(add);
  if (startup.has_server) ['serverRate', 'serverTime', 'serverWal', 'serverWaits'].forEach(add);
  if (startup.level === 3) {
    sheet.charts.find(({ by }) => by === 'process').by = 'relation';
    sheet.charts.push({ metric: 'p99', operation: 'read', by: 'relation' });
  }
  return sheet;
}

/** Return a worksheet as it was read, or say why it is none. */
function checkedWorksheet(value) {
  const fail = (why) => { throw new TypeError(`This is not a worksheet: ${why}.`); };
  if (value?.seatrial_worksheet !== WORKSHEET_VERSION) {
    fail(`"seatrial_worksheet" is not ${WORKSHEET_VERSION}`);
  }
  const { charts, filters, span_s } = value;
  if (!Array.isArray(charts) || charts.length > CHARTS_MAX) {
    fail(`"charts" is not a list of at most ${CHARTS_MAX}`);
  }
  for (const { metric, operation, by } of charts) {
    if (!Object.hasOwn(METRICS, metric)) fail(`there is no chart ${JSON.stringify(metric)}`);
    if (by && !METRICS[metric].by.includes(by)) fail(`${metric} is not drawn by ${by}`);
    if (operation && !WATCHED_OPERATIONS.includes(operation)) fail(`no operation ${operation}`);
  }
  if (typeof filters !== 'object' || filters === null) fail('"filters" is not an object');
  for (const [name, wanted] of Object.entries(filters)) {
    const isBand = Array.isArray(wanted) && wanted.length === 2 && wanted.every(Number.isFinite);
    if (!Object.hasOwn(DIMENSIONS, name)) fail(`there is no filter ${JSON.stringify(name)}`);
    if (name === 'latency' ? !isBand : typeof wanted !== 'string') fail(`the filter ${name}`);
  }
  if (!(span_s > 0)) fail('"span_s" is not a length of time');
  return {
    seatrial_worksheet: WORKSHEET_VERSION,
    charts: charts.map(({ metric, operation, by }) => ({
      metric, operation: operation ?? '', by: by ?? '',
    })),
    filters: { ...filters },
    span_s,
  };
}

/** The worksheets that this browser keeps, by name; one that cannot be read hides no other. */
const keptWorksheets = {
  stored() {
    try {
      return new Map(Object.entries(JSON.parse(localStorage.getItem(WORKSHEETS_KEY) ?? '{}')));
    } catch {
      return new Map(); // not allowed here, or written by something else
    }
  },
  read() {
    const found = new Map();
    for (const [name, sheet] of this.stored()) {
      try {
        found.set(name, checkedWorksheet(sheet));
      } catch {
        // Of another version: it stays stored, and is not offered.
      }
    }
    return found;
  },
  change(alter) {
    const sheets = this.stored();
    alter(sheets);
    localStorage.setItem(WORKSHEETS_KEY, JSON.stringify(Object.fromEntries(sheets)));
  },
};

/** Start the controls of worksheets. */
function startWorksheets(apply, current) {
  const list = document.getElementById('worksheets');
  const named = (name) => (name === STANDARD
    ? standardWorksheet(view.watched.startup) : keptWorksheets.read().get(name));
  const fill = (chosen) => {
    const names = [STANDARD, ...keptWorksheets.read().keys()];
    list.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    document.getElementById('forget').disabled = list.value === STANDARD;
  };
  const on = (id, event, act) => {
    document.getElementById(id).addEventListener(event, async (happened) => {
      try {
        await act(happened);
      } catch (error) {
        say(error.message);
      }
    });
  };
  on('worksheets', 'change', () => {
    apply(named(list.value));
    fill(list.value);
  });
  on('keep', 'click', () => {
    const name = prompt('Name of the worksheet', list.value === STANDARD ? '' : list.value)?.trim();
    if (!name || name === STANDARD) return;
    keptWorksheets.change((sheets) => sheets.set(name, current()));
    fill(name);
    say(`Saved ${name} in this browser.`);
  });
  on('forget', 'click', () => {
    keptWorksheets.change((sheets) => sheets.delete(list.value));
    fill(STANDARD);
    apply(named(STANDARD));
  });
  on('download', 'click', () => {
    const text = JSON.stringify(current(), null, 2);
    const name = list.value.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-');
    offer(`worksheet-${name}.json`, new Blob([text], { type: 'application/json' }));
  });
  on('open', 'change', async ({ target }) => {
    const [file] = target.files;
    target.value = '';
    let value;
    try {
      value = JSON.parse(await file.text());
    } catch {
      throw new TypeError(`${file.name} is not JSON.`);
    }
    apply(checkedWorksheet(value));
    say(`Opened ${file.name}.`);
  });
  fill(STANDARD);
}

/** Save all that the server has kept as one file, drawn as the page is now. */
async function saveReport(current) {
  say('The report is being made.');
  const response = await fetch('/report', {
    method: 'POST', body: JSON.stringify(current()), credentials: 'same-origin',
  });
  if (!response.ok) throw new Error(`The report was not made: ${await response.text()}`);
  const day = new Date().toISOString().slice(0, 19).replaceAll(/[T:]/g, '-');
  offer(`seatrial-watch-${day}.html`, await response.blob());
  say('Saved: one file that needs no server.');
}
