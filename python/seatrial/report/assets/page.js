// Starts the page: charts, the switch of light and dark, copying of commands, printing. Without
// this script the page still says all it knows: verdict, findings, tables, machine and study.

const PAPER_WIDTH_PX = 686; // A4 between the margins that print.css sets

const report = JSON.parse(await unpacked('report-data'));
const figures = report.figures.map((data) => new ChartFigure(
  document.getElementById(`figure-${data.id}`), data, report.source,
));

/** Draw the charts one by one, so that the page answers meanwhile. */
function drawInTurn(waiting) {
  const [next, ...others] = waiting;
  if (!next) {
    document.documentElement.dataset.drawn = 'all';
    return;
  }
  if (next.isShown) next.draw();
  setTimeout(() => drawInTurn(others));
}

/** Draw again what has been drawn already, in the colours as they are now. */
function redraw() {
  figures.filter((figure) => figure.chart && figure.isShown).forEach((figure) => figure.draw());
  // What is folded away is drawn when it is unfolded.
  figures.filter((figure) => !figure.isShown).forEach((figure) => { figure.drawnWidth_px = null; });
}

/** Draw a chart when what it stands in is unfolded. */
function startUnfolding() {
  document.querySelectorAll('details:has(figure)').forEach((details) => {
    details.addEventListener('toggle', () => figures
      .filter((figure) => details.contains(figure.element))
      .forEach((figure) => figure.fit()));
  });
}

/** Put a button next to every command that copies it. */
function startCopying() {
  for (const command of document.querySelectorAll('.command')) {
    const button = textElement('button', 'Copy');
    button.type = 'button';
    button.setAttribute('aria-label', `Copy: ${command.textContent}`);
    button.addEventListener('click', async () => {
      button.textContent = await copied(command) ? 'Copied' : 'Select and copy';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    command.after(button);
  }
}

/** Copy an element's text; where the browser forbids it to a file, leave the text selected. */
async function copied(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}

/** On paper: light colours and the paper's width; what is collapsed stays so. */
function startPrinting() {
  let before = null;
  window.addEventListener('beforeprint', () => {
    before = { theme: document.documentElement.dataset.theme };
    document.documentElement.dataset.theme = 'light';
    figures.filter((figure) => figure.isShown).forEach((figure) => figure.draw(PAPER_WIDTH_PX));
  });
  window.addEventListener('afterprint', () => {
    if (before.theme) document.documentElement.dataset.theme = before.theme;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
}

/** Keep the table of the timeline in step with the heat map. */
function startTimelineTable() {
  const table = document.getElementById('table-timeline');
  const figure = document.getElementById('figure-heatmap');
  figure?.addEventListener('view-chosen', ({ detail: view }) => {
    table.querySelector('.of').textContent = view.label;
    table.querySelector('tbody').replaceChildren(...timelineRows(view));
  });
}

/** Return the rows of the timeline's table, as report/timeline.py writes them. */
function timelineRows(view) {
  const { column_s, samples } = view.heat;
  return samples.flatMap((sample) => sample.columns.map((column) => {
    const [index, p50_ns, p99_ns, max_ns, , counts] = column;
    const row = document.createElement('tr');
    const texts = [
      String(sample.round + 1),
      formatNumber(index * column_s, 4),
      formatCount(counts.reduce((sum, count) => sum + count, 0)),
      formatDuration(p50_ns), formatDuration(p99_ns), formatDuration(max_ns),
    ];
    row.append(...texts.map((text) => textElement('td', text)));
    return row;
  }));
}

/** Unfold what a link leads into; some browsers do it themselves. */
function startLeading() {
  const lead = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === 'DETAILS') part.open = true;
    }
    target?.querySelector(':scope > details.folded')?.setAttribute('open', '');
    target?.scrollIntoView();
  };
  window.addEventListener('hashchange', lead);
  if (location.hash) lead();
}

document.documentElement.dataset.scripts = 'on';
startTheme(redraw);
startCopying();
startPrinting();
startTimelineTable();
startUnfolding();
startLeading();
figures.filter((figure) => figure.data.kind === 'timeline').forEach(followTimeline);
new ResizeObserver(() => figures.forEach((figure) => figure.fit())).observe(document.body);
drawInTurn(figures);
