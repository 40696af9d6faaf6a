// The latency heat map: time from left to right, latency upward, colour by the number of requests.

const HEAT_ROWS = 4; // rows drawn per doubling; those that are counted are finer
const NEAR_PX = 3;

/** Return how many counted rows are drawn as one. */
const rowsAtOnce = () => view.watched.startup.rows_per_doubling / HEAT_ROWS;

/** Return cells of columns: [column, row, count], with their extent and the largest count. */
function heatCells({ columns }) {
  const cells = [];
  const extent = { low: Infinity, high: -Infinity, count_max: 1 };
  const together = rowsAtOnce();
  columns.forEach((column, index) => {
    const found = new Map();
    for (const sum of column.sums.values()) {
      for (const [row, count] of sum.rows) {
        const drawn = Math.floor(row / together);
        found.set(drawn, (found.get(drawn) ?? 0) + count);
      }
    }
    for (const [row, count] of found) {
      cells.push([index, row, count]);
      extent.low = Math.min(extent.low, row);
      extent.high = Math.max(extent.high, row + 1);
      extent.count_max = Math.max(extent.count_max, count);
    }
  });
  return { cells, ...extent, rows_per_doubling: HEAT_ROWS };
}

function watchHeatOption(plot, width_px, colours) {
  const map = heatCells(plot.data);
  plot.map = map;
  // At least three decades, so that the scale does not jump while a disk is nearly idle.
  map.row_min = Math.min(map.low, Math.floor(rowAt(map, 5e4)));
  map.row_max = Math.max(map.high, Math.ceil(rowAt(map, 2e7)));
  const image = heatImage(plot, map, width_px, colours);
  const box = plotBox(width_px, plot.height_px);
  const shapes = () => [{
    type: 'image',
    style: { image, x: box.left, y: box.top, width: box.width, height: box.height },
  }];
  return {
    ...baseOption(colours),
    grid: [box],
    xAxis: [clockAxis(plot.range, width_px, colours)],
    yAxis: [latencyAxis(map, colours)],
    series: [
      drawnSeries(shapes, { z: 2 }),
      happenedSeries(plot, colours, { low: map.row_min, high: map.row_max, named: true }),
    ],
  };
}

function plotBox(width_px, height_px) {
  return {
    left: PLOT_LEFT_PX,
    top: PLOT_TOP_PX,
    width: width_px - PLOT_LEFT_PX - PLOT_RIGHT_PX,
    height: height_px - PLOT_TOP_PX - PLOT_BOTTOM_PX,
  };
}

/** Return a canvas with the cells, of which there are thousands. */
function heatImage(plot, map, width_px, colours) {
  const box = plotBox(width_px, plot.height_px);
  const scale = Math.max(1, window.devicePixelRatio);
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(box.width * scale);
  canvas.height = Math.round(box.height * scale);
  const context = canvas.getContext('2d');
  const { from, to } = plot.range;
  const x = (at) => ((at - from) / (to - from)) * canvas.width;
  const y = (row) => canvas.height * (1 - (row - map.row_min) / (map.row_max - map.row_min));
  for (const [index, row, count] of map.cells) {
    const column = plot.data.columns[index];
    const [left, right] = [Math.floor(x(column.begun)), Math.ceil(x(column.ended))];
    const [top, bottom] = [Math.floor(y(row + 1)), Math.ceil(y(row))];
    context.fillStyle = heatColour(map, count, colours);
    context.fillRect(left, top, right - left, bottom - top);
  }
  return canvas;
}

/** Return the cell at a point of the drawing (px), or just next to it; null where none is. */
function heatCell(plot, x_px, y_px) {
  const near = [0, NEAR_PX, -NEAR_PX];
  for (const [dx, dy] of near.flatMap((x) => near.map((y) => [x, y]))) {
    const found = cellAt(plot, x_px + dx, y_px + dy);
    if (found) return found;
  }
  return null;
}

function cellAt(plot, x_px, y_px) {
  const { map, data } = plot;
  const box = plotBox(plot.drawn_px, plot.height_px);
  const share = 1 - (y_px - box.top) / box.height;
  const row = Math.floor(map.row_min + share * (map.row_max - map.row_min));
  const at = plot.timeAt(x_px);
  const index = data.columns.findIndex(({ begun, ended }) => at >= begun && at < ended);
  const found = map.cells.find(([column, own]) => column === index && own === row);
  if (!found) return null;
  const { from, to } = data.columns[index];
  const band = [row * rowsAtOnce(), (row + 1) * rowsAtOnce()];
  return { from, to, band, count: found[2], operation: plot.spec.operation, filters: plot.filters };
}

/** Return a band of rows in words. */
function bandName([low, high]) {
  const { rows_per_doubling } = view.watched.startup;
  return `${formatDuration(2 ** (low / rows_per_doubling))} to `
    + `${formatDuration(2 ** (high / rows_per_doubling))}`;
}

/** Return what is said of a heat map at a time: the cell below the pointer, and percentiles. */
function heatReading(plot, at) {
  const column = plot.columnAt(at);
  if (!column) return [];
  const all = new Sum();
  for (const sum of column.sums.values()) {
    all.requests += sum.requests;
    all.max_ns = Math.max(all.max_ns, sum.max_ns);
    for (const [row, count] of sum.rows) all.rows.set(row, (all.rows.get(row) ?? 0) + count);
  }
  const time = columnTime({ from: column.begun, to: column.ended });
  if (!column.seconds) return [`${time}: not watched`];
  if (!all.requests) return [`${time}: no requests`];
  const latency = (share) => formatDuration(all.percentile(share));
  const words = [plural(all.requests, 'request'), `p50 ${latency(0.5)}`,
    `p99 ${latency(0.99)}`, ...(all.max_ns ? [`max ${formatDuration(all.max_ns)}`] : [])];
  const cell = plot.pointer ? heatCell(plot, ...plot.pointer) : null;
  if (cell) {
    words.push(`${formatCount(cell.count)} of them ${bandName(cell.band)} (click to see which)`);
  }
  return [`${time}: ${words.join(', ')} `, heatScale(plot.map)];
}

/** Return the scale of the colours: how many requests a cell holds. */
function heatScale(map) {
  const colours = view.colours;
  const scale = document.createElement('span');
  scale.className = 'scale';
  const strip = document.createElement('canvas');
  strip.width = 80;
  strip.height = 8;
  const context = strip.getContext('2d');
  for (let x = 0; x < strip.width; x += 1) {
    context.fillStyle = colourAt(colours.heat, x / strip.width);
    context.fillRect(x, 0, 1, strip.height);
  }
  scale.append('· colours: 1 ', strip, ` ${formatCount(map.count_max)} in a cell`);
  return scale;
}
