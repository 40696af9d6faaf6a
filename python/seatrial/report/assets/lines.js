// Lines with bands: rates and latencies against block size, the address map, latency against load.
// What stands in a panel besides its lines is in overlay.js (circles, absent cells, guides).

const PANEL_HEIGHT_PX = 270;
const PANEL_WITH_RINGS_PX = 330; // circles need room
const PANEL_BELOW_PX = 168;
const PANEL_TOP_PX = 50;
const PANEL_BOTTOM_PX = 48;
const PANEL_BOTTOM_UNNAMED_PX = 24;
const PANEL_LEFT_PX = 74;
const PANELS_TOP_PX = 5; // without a legend: else the tops of titles are cut off
const PANEL_RIGHT_PX = 14;
const PANEL_WIDTH_MIN_PX = 225;
const PLAIN_LINE_ICON = 'path://M0,4H30V5.6H0Z';
const BAND_OPACITY = 0.16;
const BAND_OF_MODEL_OPACITY = 0.07;

// How each look is drawn: width of its line (px), its opacity, size of its markers (px).
const LOOKS = {
  measured: { width: 2, opacity: 1, symbol_px: 7 },
  dots: { width: 0, opacity: 0, symbol_px: 8 },
plain: { width: 2, opacity: 0.8, symbol_px: 0 },
  thin: { width: 1, opacity: 0.45, symbol_px: 7 },
  model: { width: 1.2, opacity: 0.95, symbol_px: 0 },
  predicted: { width: 0, opacity: 0, symbol_px: 7 },
};

const lookOf = (line) => LOOKS[line.look ?? 'measured'];
const isModel = (line) => ['model', 'predicted'].includes(line.look);

/** Return [option, height] of a view of panels at a width. */
function linesOption(view, width_px, colours) {
  const entries = legendEntries(view, colours);
  const names = entries.map((entry) => entry.name);
  const legendShown = entries.length > 1;
  const legend_px = legendShown ? legendRows(names, width_px) * LEGEND_ROW_PX + 2
    : PANELS_TOP_PX;
  const [boxes, height_px] = panelBoxes(view.panels, width_px);
  const option = {
    ...baseOption(colours),
    title: [], grid: [], xAxis: [], yAxis: [], series: [],
    tooltip: {
      ...tooltipOption('axis', (points) => linesTip(view, points, colours), colours),
      axisPointer: { type: 'line', snap: true, lineStyle: { color: colours.muted } },
    },
  };
  if (legendShown) option.legend = legendOption(entries, colours, 0);
  view.panels.forEach((panel, index) => {
    const { top_px, ...box } = boxes[index];
    const named = !view.panels[index + 1]?.below; // else the panel below bears the same axis
    addPanel(option, panel, colours, { ...box, index, named, top_px: top_px + legend_px });
  });
  return [option, legend_px + height_px];
}

/** Return the legend's entries: what was measured by style, then models, then circles. */
function legendEntries(view, colours) {
  const lines = view.panels.flatMap((panel) => panel.lines);
  const rank = (line) => (isModel(line) ? 2 : Number(line.look === 'dots'));
  const ordered = [...lines].sort((a, b) => rank(a) - rank(b) || a.style - b.style);
  const names = [...new Set(ordered.map((line) => line.name))];
  const looks = new Map(lines.map((line) => [line.name, line.look]));
  const entries = names.map((name) => legendEntry(name, looks.get(name), colours));
  const ringed = view.panels.find((panel) => panel.rings?.length);
  if (ringed) entries.push(ringLegend(ringed, colours));
  return entries;
}

/** Return one entry of the legend; what all lines have alike stands there without a colour. */
function legendEntry(name, look, colours) {
  const quiet = { lineStyle: { color: colours.muted }, itemStyle: { color: colours.muted } };
  if (look === 'plain') return { name, icon: PLAIN_LINE_ICON };
  if (look === 'model') return { name, icon: PLAIN_LINE_ICON, ...quiet };
  return look === 'predicted' ? { name, ...quiet } : { name };
}

/** Return where each panel stands, and how high (px) all of them are together. */
function panelBoxes(panels, width_px) {
  const stacks = [];
  for (const panel of panels) {
    if (panel.below) stacks.at(-1).push(panel);
    else stacks.push([panel]);
  }
  const columns = panelColumns(stacks.length, width_px);
  const ringed = panels.some((panel) => panel.rings?.length);
  const panel_px = ringed ? PANEL_WITH_RINGS_PX : PANEL_HEIGHT_PX;
  const height = (stack) => panel_px + (stack.length - 1) * PANEL_BELOW_PX;
  const row_px = Math.max(...stacks.map(height));
  const boxes = stacks.flatMap((stack, index) => stack.map((panel, depth) => ({
    left_px: ((index % columns) * width_px) / columns,
    top_px: Math.floor(index / columns) * row_px
      + (depth && panel_px + (depth - 1) * PANEL_BELOW_PX),
    width_px: width_px / columns,
    height_px: depth ? PANEL_BELOW_PX : panel_px,
  })));
  return [boxes, Math.ceil(stacks.length / columns) * row_px];
}

/** Return how many panels stand side by side: as many as are wide enough, three at most. */
function panelColumns(panels, width_px) {
  const most = Math.max(1, Math.min(panels, 3, Math.floor(width_px / PANEL_WIDTH_MIN_PX)));
  return panels === 4 && most === 3 ? 2 : most;
}

/** Add one panel's title, grid, axes and series to the option. */
function addPanel(option, panel, colours, box) {
  const { index, named, left_px, top_px, width_px, height_px } = box;
  option.title.push({
    text: panel.title,
    subtext: panel.y.name,
    left: left_px,
    top: top_px,
    padding: 0,
    itemGap: 9,
    textStyle: { color: colours.ink, fontSize: 13, fontWeight: 600 },
    subtextStyle: { color: colours.muted, fontSize: 11.5 },
  });
  const length_px = width_px - PANEL_LEFT_PX - PANEL_RIGHT_PX;
  const bottom_px = named ? PANEL_BOTTOM_PX : PANEL_BOTTOM_UNNAMED_PX;
  const inner_px = height_px - PANEL_TOP_PX - bottom_px;
  option.grid.push({
    left: left_px + PANEL_LEFT_PX,
    top: top_px + PANEL_TOP_PX,
    width: length_px,
    height: inner_px,
  });
  option.xAxis.push(axisOption(panel.x, colours, {
    gridIndex: index, horizontal: true, nameShown: named, length_px,
  }));
  option.yAxis.push(axisOption(panel.y, colours, {
    gridIndex: index, horizontal: false, nameShown: false,
  }));
  for (const line of panel.lines) {
    const style = styleOf(line, colours);
    // The line first: the legend takes its icon from the first series of a name.
    option.series.push(
      lineSeries(panel, line, style, index), bandSeries(panel, line, style, index),
    );
  }
  option.series.push(...overlaySeries(panel, index, colours));
}

/** Return a line's colour, dash and marker: a model's line is solid, a prediction hollow. */
function styleOf(line, colours) {
  const style = lineStyle(line.style, colours);
  if (line.look === 'plain') return { ...style, marker: 'none' };
  if (line.look === 'model') return { ...style, dash: 'solid', marker: 'none' };
  if (line.look === 'predicted') return { ...style, marker: hollow(style.marker) };
  return line.marker ? { ...style, marker: line.marker } : style;
}

/** Return the hollow form of a marker. */
const hollow = (marker) => (
  marker.startsWith('empty') ? marker : `empty${marker[0].toUpperCase()}${marker.slice(1)}`
);

/** Return one line's series. */
function lineSeries(panel, line, style, index) {
  const look = lookOf(line);
  const icon = MARKER_PATHS[style.marker] ?? style.marker;
  return {
    type: 'line',
    name: line.name,
    xAxisIndex: index,
    yAxisIndex: index,
    z: { model: 2, predicted: 4 }[line.look] ?? 3, // what is hollow hides nothing
    symbol: icon,
    symbolSize: line.points.length > 24 ? 4 : look.symbol_px,
    showAllSymbol: true,
    itemStyle: { color: style.color },
    lineStyle: { color: style.color, type: style.dash, width: look.width, opacity: look.opacity },
    emphasis: { disabled: true },
    data: line.points.map((point) => ({
      value: [position(panel.x, point[0]), position(panel.y, point[1])],
      point,
      line,
    })),
  };
}

/** Return the intervals of a line: a band through neighbours, a stroke at a point alone. */
function bandSeries(panel, line, style, index) {
  const alone = ['dots', 'predicted'].includes(line.look);
  const opacity = line.look === 'model' ? BAND_OF_MODEL_OPACITY : BAND_OPACITY;
  const runs = intervalRuns(line.points).flatMap((run) => (
    alone ? run.map((point) => [point]) : [run]
  ));
  const shapes = (api) => runs.map((run) => {
    const end = (side) => run.map((point) => api.coord([
      position(panel.x, point[0]),
      position(panel.y, Math.max(point[side], panel.y.low)),
    ]));
    const [low, high] = [end(2), end(3)];
    if (run.length === 1) {
      const [[x, y1], [, y2]] = [low[0], high[0]];
      return { type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: style.color } };
    }
    const points = [...high, ...low.reverse()];
    return { type: 'polygon', shape: { points }, style: { fill: style.color, opacity } };
  });
  return drawnSeries(shapes, { axis: index, name: line.name, color: style.color });
}

/** Return the stretches of neighbouring points that have an interval. */
function intervalRuns(points) {
  const runs = [[]];
  for (const point of points) {
    if (point[2] === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  return runs.filter((run) => run.length > 0);
}

/** Return a line's name with that of the line which it belongs to. */
const fullName = (line) => (line.of ? `${line.of}, ${line.name}` : line.name);

/** Return the tooltip of the points at one position: what a line's model says stands next to it. */
function linesTip(view, parameters, colours) {
  const marks = parameters.filter((parameter) => parameter.seriesType === 'line');
  if (marks.length === 0) return '';
  const panel = view.panels[marks[0].axisIndex] ?? view.panels[0];
  const x = marks[0].data.point[0];
  const rows = new Map();
  for (const { color, data: { line, point } } of marks) {
    const name = line.of || line.name;
    const text = line.of ? `${line.name} ${point[4]}`.trim() : point[4];
    const known = rows.get(name);
    rows.set(name, { name, color, text: known ? `${known.text}; ${text}` : text });
  }
  for (const { name, color, text } of absentRows(panel, x, colours)) {
    const known = rows.get(name);
    rows.set(name, { name, color, text: known ? `${text}; ${known.text}` : text });
  }
  const tick = panel.x.ticks.find(([value]) => value === x);
  return tipContent(
    tick ? tick[1] : placeName(panel.x, x), [...rows.values(), ...ringRows(panel, x, colours)],
  );
}

/** Return a position on the horizontal axis that has no tick, in words. */
const placeName = (axis, x) => (
  axis.unit === 'B' ? formatSize(x) : `${formatNumber(x)} ${axis.unit}`
);

/** Return the view as rows of a table, the first of them its heading. */
function linesTable(view) {
  const [{ x }] = view.panels;
  const rows = view.panels.flatMap((panel) => panel.lines.flatMap((line) => line.points.map(
    (point) => [panel.title, fullName(line), point[0], panel.y.unit, ...figureColumns(point)],
  )));
  const at = `${x.name.toLowerCase().replaceAll(' ', '_')}_${x.unit === 'B' ? 'bytes' : x.unit}`;
  return [['panel', 'line', at, 'unit', ...FIGURE_COLUMNS], ...rows];
}
