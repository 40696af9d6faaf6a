// Figures of one cell on one rung, with their intervals: its percentiles from the median to the
// slowest, or its ratio in a comparison.

const LADDER_ROW_PX = 40;
const LADDER_SIDE_PX = 12;
const LADDER_BOTTOM_PX = 46;
const PERCENTILES = ['p50', 'p90', 'p99', 'p99.9', 'max']; // each in its style, in every chart
const RUNG_SHARE = 0.74; // of a row's height, from its top: the label stands above the rung

/** Return [option, height] of a view of rows at a width. */
function ladderOption(view, width_px, colours) {
  const { names } = view;
  const styleOf = (name) => namedStyle(name, colours);
  const legend_px = legendRows(names, width_px) * LEGEND_ROW_PX - 2;
  const height_px = view.rows.length * LADDER_ROW_PX;
  const length_px = width_px - 2 * LADDER_SIDE_PX;
  const option = {
    ...baseOption(colours),
    legend: { ...legendOption(names, colours, 0), itemWidth: 12 },
    grid: [{ left: LADDER_SIDE_PX, top: legend_px, height: height_px, width: length_px }],
    xAxis: [valueAxis(view.axis, length_px, colours)],
    yAxis: [rowAxis(view.rows.length)],
    tooltip: {
      ...tooltipOption('axis', (points) => ladderTip(view, points), colours),
      axisPointer: {
        type: 'shadow', axis: 'y', z: 0, shadowStyle: { color: colours.rule, opacity: 0.4 },
      },
    },
    series: [
      drawnSeries((api) => uprights(view, api, colours), { z: 0 }),
      drawnSeries((api) => rungs(view, api, colours), { z: 1 }),
      ...names.map((name) => rungSeries(view, name, styleOf(name))),
      ...names.map((name) => rungIntervals(view, name, styleOf(name))),
    ],
  };
  return [option, legend_px + height_px + LADDER_BOTTOM_PX];
}

/** Return the option of the axis that all rows are measured by. */
function valueAxis(axis, length_px, colours) {
  const side = { gridIndex: 0, horizontal: true, nameShown: true, length_px };
  const splitLine = { show: true, lineStyle: { color: colours.rule } };
  return { ...axisOption(axis, colours, side), splitLine };
}

/** Return an axis with one position for each row, downwards, unlabelled. */
function rowAxis(rows) {
  return {
    type: 'category',
    data: Array.from({ length: rows }, (_, index) => String(index)),
    inverse: true,
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { show: false },
    splitLine: { show: false },
  };
}

/** Return the lines and bands behind all rows. */
function uprights(view, api, colours) {
  const [, top] = api.coord([0, 0]);
  const [, bottom] = api.coord([0, view.rows.length - 1]);
  const at = (value) => api.coord([position(view.axis, value), 0])[0];
  const [y1, y2] = [top - LADDER_ROW_PX / 2, bottom + LADDER_ROW_PX / 2];
  return (view.guides ?? []).map(({ low, high }) => (high === undefined
    ? {
      type: 'line',
      shape: { x1: at(low), x2: at(low), y1, y2 },
      style: { stroke: colours.muted, lineWidth: 1.4, lineDash: [6, 4] },
    }
    : {
      type: 'rect',
      shape: { x: at(low), y: y1, width: at(high) - at(low), height: y2 - y1 },
      style: { fill: colours.muted, opacity: 0.13 },
    }));
}

/** Return the height (px) at which a row's rung lies. */
function rungHeight(api, index) {
  const [, middle] = api.coord([0, index]);
  return middle + (RUNG_SHARE - 0.5) * LADDER_ROW_PX;
}

/** Return the labels and the lines that join each row's percentiles. */
function rungs(view, api, colours) {
  const [left] = api.coord([position(view.axis, view.axis.low), 0]);
  return view.rows.flatMap((row, index) => {
    const y = rungHeight(api, index);
    const ends = Object.values(row.points).map((point) => api.coord([
      position(view.axis, point[1]), index,
    ])[0]);
    return [
      {
        type: 'line',
        shape: { x1: Math.min(...ends), x2: Math.max(...ends), y1: y, y2: y },
        style: { stroke: colours.muted, lineWidth: 1, opacity: 0.6 },
      },
      rowLabel(row, left, y - 19, colours),
    ];
  });
}

/** Return a row's label, then its remark in a quieter colour. */
function rowLabel(row, x, y, colours) {
  const halo = { fontSize: 12.5, fontFamily: FONT, stroke: colours.paper, lineWidth: 3 };
  return {
    type: 'text',
    x,
    y,
    style: {
      text: `{name|${plainText(row.label)}}  {remark|${plainText(row.remark)}}`,
      verticalAlign: 'middle',
      rich: {
        name: { ...halo, fill: colours.ink, fontWeight: 600 },
        remark: { ...halo, fill: colours.muted },
      },
    },
  };
}

/** Return a text without the braces and bars that would be read as markup of rich text. */
const plainText = (text) => text.replaceAll(/[{}|]/g, ' ');

/** Return the markers of one percentile in all rows. */
function rungSeries(view, name, style) {
  return {
    type: 'line',
    name,
    z: 3,
    symbol: MARKER_PATHS[style.marker] ?? style.marker,
    symbolSize: 9,
    symbolOffset: [0, (RUNG_SHARE - 0.5) * LADDER_ROW_PX],
    lineStyle: { width: 0 },
    itemStyle: { color: style.color },
    emphasis: { disabled: true },
    data: view.rows.flatMap((row, index) => {
      const point = row.points[name];
      return point ? [{ value: [position(view.axis, point[1]), index], point }] : [];
    }),
  };
}

/** Return the intervals of one percentile in all rows. */
function rungIntervals(view, name, style) {
  const shapes = (api) => view.rows.flatMap((row, index) => {
    const point = row.points[name];
    if (!point || point[2] === null) return [];
    const y = rungHeight(api, index);
    const [x1, x2] = [point[2], point[3]].map((end) => api.coord([
      position(view.axis, Math.max(end, view.axis.low)), index,
    ])[0]);
    return [{
      type: 'line',
      shape: { x1, x2, y1: y, y2: y },
      style: { stroke: style.color, lineWidth: 3, opacity: 0.45 },
    }];
  });
  return drawnSeries(shapes, { name, z: 2, color: style.color });
}

/** Return the tooltip of one row. */
function ladderTip(view, parameters) {
  const marks = parameters.filter((parameter) => parameter.seriesType === 'line');
  if (marks.length === 0) return '';
  const row = view.rows[marks[0].data.value[1]];
  return tipContent(row.label, marks.map(({ seriesName, color, data }) => ({
    name: seriesName, text: data.point[4], color,
  })));
}

/** Return the view as rows of a table, the first of them its heading. */
function rowsTable(view) {
  const rows = view.rows.flatMap((row) => Object.entries(row.points).map(
    ([name, point]) => [row.label, name, view.axis.unit, ...figureColumns(point)],
  ));
  return [['cell', 'figure', 'unit', ...FIGURE_COLUMNS], ...rows];
}
