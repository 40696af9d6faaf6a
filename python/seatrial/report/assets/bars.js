// Single figures side by side: bars from zero, with a whisker over the interval; or parts, each of
// which begins where the one before it ends.

const BAR_ROW_PX = 44;
const BAR_TOP_PX = 4;
const BAR_BOTTOM_PX = 46;
const BAR_HEIGHT_PX = 14;
const WHISKER_PX = 4;

/** Return [option, height] of a view of rows at a width. */
function barsOption(view, width_px, colours) {
  const height_px = view.rows.length * BAR_ROW_PX;
  const length_px = width_px - 2 * LADDER_SIDE_PX;
  const option = {
    ...baseOption(colours),
    grid: [{ left: LADDER_SIDE_PX, top: BAR_TOP_PX, height: height_px, width: length_px }],
    xAxis: [valueAxis(view.axis, length_px, colours)],
    yAxis: [rowAxis(view.rows.length)],
    tooltip: tooltipOption('item', ([{ dataIndex }]) => barTip(view.rows[dataIndex]), colours),
    series: [{
      type: 'custom',
      name: view.label,
      data: view.rows.map((row, index) => [Object.values(row.points)[0]?.[1] ?? 0, index]),
      encode: { x: 0, y: 1 },
      renderItem: ({ dataIndex }, api) => bar(view, dataIndex, api, colours),
    }],
  };
  return [option, BAR_TOP_PX + height_px + BAR_BOTTOM_PX];
}

/** Return one bar with its label above and its whisker; of a row without a figure its heading. */
function bar(view, index, api, colours) {
  const row = view.rows[index];
  const [left, middle] = api.coord([0, index]);
  const [point] = Object.values(row.points);
  if (!point) return { type: 'group', children: [barHeading(row, left, middle, colours)] };
  const [, value, low, high] = point;
  const start = row.start ?? 0;
  const [x0, x1] = [start, start + value].map((end) => api.coord([end, index])[0]);
  const y = middle + 10;
  const children = [
    rowLabel(row, left, middle - 9, colours),
    {
      type: 'rect',
      shape: {
        x: Math.min(x0, x1),
        y: y - BAR_HEIGHT_PX / 2,
        width: Math.max(Math.abs(x1 - x0), 1), // a part of next to nothing is seen, too
        height: BAR_HEIGHT_PX,
      },
      style: barFill(row, colours),
    },
  ];
  if (view.rows[index + 1]?.start !== undefined) children.push(joint(x1, y, colours));
  if (low !== null) {
    const [x1_low, x1_high] = [low, high].map(
      (end) => api.coord([Math.min(end, view.axis.high), index])[0],
    );
    const beyond = high > view.axis.high; // then the whisker leaves the chart without an end
    children.push(...whisker(x1_low, x1_high, y, beyond, colours));
  }
  return { type: 'group', children };
}

/** Return the colour of a bar. */
function barFill({ quiet, tone }, colours) {
  if (quiet) return { fill: colours.muted, opacity: 0.45 };
  const fill = { better: colours.lines[2], worse: colours.alarm }[tone] ?? colours.accent;
  return { fill, opacity: 0.85 };
}

/** Return the thin line from the end of a part to the next part, which begins there. */
function joint(x, y, colours) {
  return {
    type: 'line',
    shape: { x1: x, x2: x, y1: y + BAR_HEIGHT_PX / 2, y2: y + BAR_ROW_PX - BAR_HEIGHT_PX / 2 },
    style: { stroke: colours.muted, lineWidth: 1, opacity: 0.5 },
    z2: -1, // behind the next row's label
  };
}

/** Return the heading above the rows that follow. */
function barHeading(row, x, middle, colours) {
  return {
    type: 'text',
    x,
    y: middle + 9,
    style: {
      text: plainText(row.label),
      fill: colours.muted, stroke: colours.paper, lineWidth: 3,
      verticalAlign: 'middle', fontSize: 13, fontWeight: 600, fontFamily: FONT,
    },
  };
}

/** Return a line over an interval with an upright at both ends. */
function whisker(x1, x2, y, beyond, colours) {
  const upright = (x) => ({ x1: x, x2: x, y1: y - WHISKER_PX, y2: y + WHISKER_PX });
  const shapes = [{ x1, x2, y1: y, y2: y }, upright(x1), ...(beyond ? [] : [upright(x2)])];
  return shapes.map((shape) => ({
    type: 'line', shape, style: { stroke: colours.ink, lineWidth: 1.5 },
  }));
}

/** Return the tooltip of one bar. */
function barTip(row) {
  const [point] = Object.values(row.points);
  return point ? tipContent(row.label, [{ name: '', text: point[4] }]) : '';
}
