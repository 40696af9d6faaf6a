// Latency over time: colour says how many requests ended then and took so long. The rounds of a
// cell stand one after another; stalls are shaded, with their length and cause.

const HEAT_HEIGHT_PX = 330;
const HEAT_TOP_PX = 62;
const HEAT_LEFT_PX = 62;
const HEAT_RIGHT_PX = 12;
const HEAT_BOTTOM_PX = 48;
const HEAT_NARROW_PX = 480;
const SCALE_WIDTH_PX = 150;
const SCALE_STEPS = 30;
const STALL_LABEL_PX = 84;
const ROUND_GAP_SHARE = 0.012;

/** Return [option, height] of a view at a width. */
function heatOption(view, width_px, colours) {
  const map = heatLayout(view.heat);
  // The scale stands next to the legend where both fit, else below it.
  const top_px = HEAT_TOP_PX + (width_px < HEAT_NARROW_PX ? LEGEND_ROW_PX : 0);
  const shapes = (api) => [
    ...stallMarks(api, map, colours),
    ...map.rounds.flatMap((round) => roundShapes(round, api, map, colours)),
  ];
  const option = {
    ...baseOption(colours),
    legend: {
      ...legendOption(['median', '99th percentile'], colours, 0),
      itemStyle: { opacity: 0 }, // lines without markers
    },
    grid: [mainGrid(width_px, top_px), scaleGrid(width_px, top_px)],
    xAxis: [timeAxis(map, colours), countAxis(map, colours)],
    yAxis: [latencyAxis(map, colours), hiddenAxis(1)],
    tooltip: tooltipOption('item', ([point]) => heatTip(map, point, colours), colours),
    series: [
      stallSeries(map, colours),
      cellSeries(map, colours),
      { ...drawnSeries(shapes, { z: 5 }), clip: false },
      drawnSeries((api) => scaleShapes(map, api, colours), { axis: 1 }),
      ...percentileSeries(map, 'median', 1, 'solid', colours),
      ...percentileSeries(map, '99th percentile', 2, [5, 3], colours),
    ],
  };
  return [option, HEAT_HEIGHT_PX + top_px];
}

/** Return where everything lies: rounds in s from the left, cells of the map, their extents. */
function heatLayout({ column_s, rows_per_doubling, samples }) {
  const total_s = samples.reduce((sum, sample) => sum + sample.duration_s, 0);
  const gap_s = total_s * ROUND_GAP_SHARE;
  const rounds = [];
  const cells = [];
  let start_s = 0;
  for (const sample of samples) {
    const round = { ...sample, start_s, end_s: start_s + sample.duration_s };
    rounds.push(round);
    for (const [index, p50_ns, p99_ns, max_ns, first_row, counts] of sample.columns) {
      const from_s = round.start_s + index * column_s;
      const to_s = Math.min(from_s + column_s, round.end_s);
      const column = { round, index, from_s, to_s, p50_ns, p99_ns, max_ns };
      counts.forEach((count, step) => {
        if (count > 0) cells.push({ column, row: first_row + step, count });
      });
    }
    start_s = round.end_s + gap_s;
  }
  const rows = cells.map((cell) => cell.row);
  return {
    column_s,
    rows_per_doubling,
    rounds,
    cells,
    stalls: rounds.flatMap((round) => round.stalls.map(([from_s, length_s, cause, text]) => ({
      round, from_s: round.start_s + from_s, to_s: round.start_s + from_s + length_s, cause, text,
    }))),
    end_s: start_s - gap_s,
    row_min: rows.reduce((a, b) => Math.min(a, b), Infinity) - 1,
    row_max: rows.reduce((a, b) => Math.max(a, b), -Infinity) + 2,
    count_max: cells.reduce((most, cell) => Math.max(most, cell.count), 1),
  };
}

/** Return the latency (ns) at which a row begins. */
const rowStart = (map, row) => 2 ** (row / map.rows_per_doubling);

/** Return the row, with its fraction, of a latency. */
const rowAt = (map, latency_ns) => Math.log2(Math.max(latency_ns, 1)) * map.rows_per_doubling;

/** Return a count's colour: its logarithm's share of the largest count's. */
function heatColour(map, count, colours) {
  const whole = Math.log(map.count_max) || 1;
  return colourAt(colours.heat, Math.log(count) / whole);
}

function mainGrid(width_px, top_px) {
  return {
    left: HEAT_LEFT_PX,
    top: top_px,
    width: width_px - HEAT_LEFT_PX - HEAT_RIGHT_PX,
    height: HEAT_HEIGHT_PX - HEAT_BOTTOM_PX,
  };
}

function scaleGrid(width_px, top_px) {
  return {
    left: width_px - SCALE_WIDTH_PX - HEAT_RIGHT_PX,
    top: top_px - HEAT_TOP_PX + 2,
    width: SCALE_WIDTH_PX,
    height: 8,
  };
}

function timeAxis(map, colours) {
  const axis = { name: 'Time measured (s)', scale: 'linear', low: 0, high: map.end_s, ticks: [] };
  const option = axisOption(axis, colours, { gridIndex: 0, horizontal: true, nameShown: true });
  const step = roundStep(map.end_s / 6);
  const values = [];
  for (let value = 0; value <= map.end_s * 1.0001; value += step) values.push(value);
  option.axisTick.customValues = values;
  option.axisLabel.customValues = values;
  option.axisLabel.formatter = (value) => formatNumber(value);
  return option;
}

/** Return the next of 1, 2, 5 times a power of ten at or above a number. */
function roundStep(rough) {
  const decade = 10 ** Math.floor(Math.log10(rough));
  return decade * [1, 2, 5, 10].find((step) => step * decade >= rough);
}

function latencyAxis(map, colours) {
  const ticks = [];
  for (let decade = 0; decade <= 13; decade += 1) {
    const row = rowAt(map, 10 ** decade);
    const label = formatDuration(10 ** decade, 1);
    if (row >= map.row_min && row <= map.row_max) ticks.push([row, label]);
  }
  const axis = { scale: 'linear', low: map.row_min, high: map.row_max, ticks };
  const option = axisOption(axis, colours, { gridIndex: 0, horizontal: false, nameShown: false });
  return { ...option, splitLine: { show: false }, axisLine: { show: true, onZero: false,
    lineStyle: { color: colours.muted } }, axisTick: { ...option.axisTick, show: true } };
}

function countAxis(map, colours) {
  const ends = [...new Set([1, map.count_max])];
  const ticks = ends.map((count) => [count, formatCount(count)]);
  const axis = {
    name: '', scale: 'log', low: 1, high: Math.max(map.count_max, 1.1), ticks,
  };
  const option = axisOption(axis, colours, { gridIndex: 1, horizontal: true, nameShown: false });
  Object.assign(option.axisLabel, { alignMinLabel: 'left', alignMaxLabel: 'right' });
  return { ...option, name: 'requests', nameGap: 20, nameTextStyle: { color: colours.muted } };
}

const hiddenAxis = (gridIndex) => ({ type: 'value', gridIndex, min: 0, max: 1, show: false });

/** Return the coloured cells of the map. */
function cellSeries(map, colours) {
  return {
    type: 'custom',
    name: 'requests',
    clip: true,
    z: 2,
    data: map.cells.map(({ column, row, count }) => [column.from_s, row, count]),
    encode: { x: 0, y: 1 },
    renderItem: ({ dataIndex }, api) => {
      const { column, row, count } = map.cells[dataIndex];
      const [left, bottom] = api.coord([column.from_s, row]);
      const [right, top] = api.coord([column.to_s, row + 1]);
      // Half a pixel of overlap, so that no seams show between neighbours.
      return {
        type: 'rect',
        shape: { x: left, y: top, width: right - left + 0.4, height: bottom - top + 0.4 },
        style: { fill: heatColour(map, count, colours) },
      };
    },
  };
}

/**
 * Return a percentile's line, broken where nothing ended and between rounds: a line of ink on a
 * wider one of paper, so that it shows on every colour of the map.
 */
function percentileSeries(map, name, field, type, colours) {
  const data = [];
  for (const round of map.rounds) {
    let next = null;
    for (const column of round.columns) {
      const middle_s = round.start_s + (column[0] + 0.5) * map.column_s;
      if (next !== null && column[0] !== next) data.push([null, null]);
      data.push([Math.min(middle_s, round.end_s), rowAt(map, column[field])]);
      next = column[0] + 1;
    }
    data.push([null, null]);
  }
  const line = (lineStyle) => ({
    type: 'line',
    name,
    data,
    silent: true,
    symbol: 'none',
    tooltip: { show: false },
    itemStyle: { color: lineStyle.color },
    lineStyle,
    emphasis: { disabled: true },
  });
  return [
    line({ color: colours.ink, width: 1.6, type }),
    line({ color: colours.paper, width: 4, type: 'solid', opacity: 0.85 }),
  ].map((series, index) => ({ ...series, z: 4 - index }));
}

/** Return the shading of the stalls, below the coloured cells, with a tooltip each. */
function stallSeries(map, colours) {
  return {
    type: 'custom',
    name: 'stalls',
    clip: true,
    z: 1,
    data: map.stalls.map(({ from_s }) => [from_s, map.row_min]),
    encode: { x: 0, y: 1 },
    renderItem: ({ dataIndex }, api) => {
      const { left, width, top, bottom } = stallBox(map.stalls[dataIndex], api, map);
      return {
        type: 'rect',
        shape: { x: left, y: top, width, height: bottom - top },
        style: { fill: colours.alarm, opacity: 0.13 },
      };
    },
  };
}

/** Return where a stall lies in px; at least as wide as can be seen. */
function stallBox(stall, api, map) {
  const [left, top] = api.coord([stall.from_s, map.row_max]);
  const [right, bottom] = api.coord([stall.to_s, map.row_min]);
  return { left, width: Math.max(right - left, 2), top, bottom };
}

/** Return the edges of all stalls, and the labels of those that have room for one. */
function stallMarks(api, map, colours) {
  const boxes = map.stalls.map((stall) => stallBox(stall, api, map));
  return boxes.flatMap((box, index) => {
    const right = box.left + box.width;
    const edges = [box.left, right].map((x) => ({
      type: 'line',
      shape: { x1: x, x2: x, y1: box.top, y2: box.bottom },
      style: { stroke: colours.alarm, lineWidth: 1.5, lineDash: [3, 3] },
    }));
    const inside = box.width > STALL_LABEL_PX;
    const [end] = api.coord([map.stalls[index].round.end_s, map.row_max]);
    const room_px = Math.min(boxes[index + 1]?.left ?? end, end) - right;
    if (!inside && room_px < STALL_LABEL_PX) return edges;
    const x = inside ? box.left + box.width / 2 : right + 6;
    return [...edges, stallLabel(map.stalls[index], x, box.top, inside, colours)];
  });
}

function stallLabel({ from_s, to_s, cause }, x, top, inside, colours) {
  return {
    type: 'text',
    x,
    y: top + 10,
    style: {
      text: `stall ${formatDuration((to_s - from_s) * 1e9, 2)}\n${cause}`,
      fill: colours.ink,
      textAlign: inside ? 'center' : 'left',
      lineHeight: 16,
      font: `600 12px ${FONT}`,
    },
  };
}

/** Return a round's name and the line where it begins. */
function roundShapes(round, api, map, colours) {
  const [left, top] = api.coord([round.start_s, map.row_max]);
  const [, bottom] = api.coord([round.start_s, map.row_min]);
  const [right] = api.coord([round.end_s, map.row_max]);
  const shapes = [];
  if (round.start_s > 0) {
    shapes.push({
      type: 'line',
      shape: { x1: left - 2, x2: left - 2, y1: top, y2: bottom },
      style: { stroke: colours.muted, lineWidth: 1 },
    });
  }
  if (right - left > 56) {
    shapes.push({
      type: 'text', x: left, y: top - 16,
      style: { text: `round ${round.round + 1}`, fill: colours.muted, font: `11px ${FONT}` },
    });
  }
  return shapes;
}

/** Return the steps of the colour scale. */
function scaleShapes(map, api, colours) {
  const whole = Math.log10(Math.max(map.count_max, 1.1));
  return Array.from({ length: SCALE_STEPS }, (_, step) => {
    const [x, y] = api.coord([(whole * step) / SCALE_STEPS, 1]);
    const [right, bottom] = api.coord([(whole * (step + 1)) / SCALE_STEPS, 0]);
    return {
      type: 'rect',
      shape: { x, y, width: right - x + 0.4, height: bottom - y },
      style: { fill: colourAt(colours.heat, (step + 0.5) / SCALE_STEPS) },
    };
  });
}

/** Return the tooltip of one stall. */
function stallTip({ round, from_s, text }) {
  const start = formatNumber(from_s - round.start_s);
  return tipContent(`Round ${round.round + 1}, from ${start} s`, [{ name: '', text }]);
}

/** Return the tooltip of one cell of the map, or of a stall. */
function heatTip(map, { dataIndex, seriesName }, colours) {
  if (seriesName === 'stalls') return stallTip(map.stalls[dataIndex]);
  const { column, row, count } = map.cells[dataIndex];
  const from_s = column.from_s - column.round.start_s;
  const to_s = column.to_s - column.round.start_s;
  const seconds = (value) => formatNumber(value, 4);
  return tipContent(`Round ${column.round.round + 1}, ${seconds(from_s)} to ${seconds(to_s)} s`, [
    {
      name: `${formatDuration(rowStart(map, row))} to ${formatDuration(rowStart(map, row + 1))}`,
      text: `${formatCount(count)} ${count === 1 ? 'request' : 'requests'}`,
      color: heatColour(map, count, colours),
    },
    { name: 'median then', text: formatDuration(column.p50_ns) },
    { name: '99th percentile then', text: formatDuration(column.p99_ns) },
    { name: 'slowest then', text: formatDuration(column.max_ns) },
  ]);
}

/** Return the view as rows of a table, the first of them its heading. */
function heatTable(view) {
  const map = heatLayout(view.heat);
  const rows = map.cells.map(({ column, row, count }) => [
    column.round.round + 1,
    Number((column.from_s - column.round.start_s).toFixed(4)),
    Number((column.to_s - column.round.start_s).toFixed(4)),
    Math.round(rowStart(map, row)),
    Math.round(rowStart(map, row + 1)),
    count,
  ]);
  return [['round', 'from_s', 'to_s', 'latency_from_ns', 'latency_to_ns', 'requests'], ...rows];
}
