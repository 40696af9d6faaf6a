// Lines with bands: rates and latencies against block size, the address map.

const PANEL_HEIGHT_PX = 270;
const PANEL_TOP_PX = 44;
const PANEL_BOTTOM_PX = 48;
const PANEL_LEFT_PX = 74;
const PANEL_RIGHT_PX = 14;
const PANEL_WIDTH_MIN_PX = 225;
const BAND_OPACITY = 0.16;

/** Return [option, height] of a view of panels at a width. */
function linesOption(view, width_px, colours) {
  const lines = view.panels.flatMap((panel) => panel.lines).sort((a, b) => a.style - b.style);
  const names = [...new Set(lines.map((line) => line.name))];
  const legendShown = names.length > 1;
  const legend_px = legendShown ? legendRows(names, width_px) * LEGEND_ROW_PX + 8 : 0;
  const columns = panelColumns(view.panels.length, width_px);
  const rows = Math.ceil(view.panels.length / columns);
  const option = {
    ...baseOption(colours),
    title: [], grid: [], xAxis: [], yAxis: [], series: [],
    tooltip: {
      ...tooltipOption('axis', (points) => linesTip(view, points), colours),
      axisPointer: { type: 'line', snap: true, lineStyle: { color: colours.muted } },
    },
  };
  if (legendShown) option.legend = legendOption(names, colours, 0);
  view.panels.forEach((panel, index) => {
    const column = index % columns;
    const left_px = (column * width_px) / columns;
    const top_px = legend_px + Math.floor(index / columns) * PANEL_HEIGHT_PX;
    addPanel(option, panel, colours, {
      index, left_px, top_px, width_px: width_px / columns,
    });
  });
  return [option, legend_px + rows * PANEL_HEIGHT_PX];
}

/** Return how many panels stand side by side: as many as are wide enough, three at most. */
function panelColumns(panels, width_px) {
  const most = Math.max(1, Math.min(panels, 3, Math.floor(width_px / PANEL_WIDTH_MIN_PX)));
  return panels === 4 && most === 3 ? 2 : most;
}

/** Add one panel's title, grid, axes and series to the option. */
function addPanel(option, panel, colours, { index, left_px, top_px, width_px }) {
  option.title.push({
    text: panel.title,
    subtext: panel.y.name,
    left: left_px,
    top: top_px,
    padding: 0,
    itemGap: 4,
    textStyle: { color: colours.ink, fontSize: 13, fontWeight: 600 },
    subtextStyle: { color: colours.muted, fontSize: 11.5 },
  });
  const length_px = width_px - PANEL_LEFT_PX - PANEL_RIGHT_PX;
  option.grid.push({
    left: left_px + PANEL_LEFT_PX,
    top: top_px + PANEL_TOP_PX,
    width: length_px,
    height: PANEL_HEIGHT_PX - PANEL_TOP_PX - PANEL_BOTTOM_PX,
  });
  option.xAxis.push(axisOption(panel.x, colours, {
    gridIndex: index, horizontal: true, nameShown: true, length_px,
  }));
  option.yAxis.push(axisOption(panel.y, colours, {
    gridIndex: index, horizontal: false, nameShown: false,
  }));
  for (const line of panel.lines) {
    const style = lineStyle(line.style, colours);
    // The line first: the legend takes its icon from the first series of a name.
    option.series.push(
      lineSeries(panel, line, style, index), bandSeries(panel, line, style, index),
    );
  }
}

/** Return one line's series. */
function lineSeries(panel, line, style, index) {
  return {
    type: 'line',
    name: line.name,
    xAxisIndex: index,
    yAxisIndex: index,
    z: 3,
    symbol: style.marker,
    symbolSize: line.points.length > 24 ? 4 : 7,
    showAllSymbol: true,
    itemStyle: { color: style.color },
    lineStyle: { color: style.color, type: style.dash, width: 2 },
    emphasis: { disabled: true },
    data: line.points.map((point) => ({
      value: [place(panel.x, point[0]), place(panel.y, point[1])],
      point,
    })),
  };
}

/** Return the intervals of a line: a band through neighbours, a stroke at a point alone. */
function bandSeries(panel, line, style, index) {
  const shapes = (api) => intervalRuns(line.points).flatMap((run) => {
    const end = (side) => run.map((point) => api.coord([
      place(panel.x, point[0]),
      place(panel.y, Math.max(point[side], panel.y.low)),
    ]));
    const [low, high] = [end(2), end(3)];
    if (run.length === 1) {
      const [[x, y1], [, y2]] = [low[0], high[0]];
      return [{ type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: style.color } }];
    }
    const points = [...high, ...low.reverse()];
    return [{
      type: 'polygon', shape: { points }, style: { fill: style.color, opacity: BAND_OPACITY },
    }];
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

/** Return the tooltip of the points at one place. */
function linesTip(view, parameters) {
  const lines = parameters.filter((parameter) => parameter.seriesType === 'line');
  if (lines.length === 0) return '';
  const panel = view.panels[lines[0].axisIndex] ?? view.panels[0];
  const x = lines[0].data.point[0];
  const tick = panel.x.ticks.find(([value]) => value === x);
  return tipContent(
    tick ? tick[1] : formatSize(x),
    lines.map(({ seriesName, color, data }) => ({ name: seriesName, text: data.point[4], color })),
  );
}

/** Return the view as rows of a table, the first of them its heading. */
function linesTable(view) {
  const [{ x }] = view.panels;
  const rows = view.panels.flatMap((panel) => panel.lines.flatMap((line) => line.points.map(
    ([at, value, low, high]) => [panel.title, line.name, at, panel.y.unit, value, low, high],
  )));
  const at = `${x.name.toLowerCase().replaceAll(' ', '_')}_${x.unit === 'B' ? 'bytes' : x.unit}`;
  return [['panel', 'line', at, 'unit', 'value', 'low_95', 'high_95'], ...rows];
}
