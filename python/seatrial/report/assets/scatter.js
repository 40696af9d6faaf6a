// Things before and after: both times on one logarithmic scale, so that what did not change lies
// on the diagonal, what became faster below it and what became slower above.

const SCATTER_TOP_PX = 22;
const SCATTER_BOTTOM_PX = 48;
const SCATTER_SHARE = 0.56; // of the width, in height
const SCATTER_HEIGHT_PX = [300, 540];
const BUBBLE_PX = [4, 24]; // radius of the smallest and of the largest
const BUBBLE_SHARE = 0.025; // of the width, at most
const SLOPES_WIDTH_PX = 520; // of narrower charts the labels would overlap

/** Return [option, height] of a view of bubbles at a width. */
function scatterOption(view, width_px, colours) {
  const { x, y } = view.scatter;
  const legend_px = legendRows(view.names, width_px) * LEGEND_ROW_PX + 2;
  const length_px = width_px - PANEL_LEFT_PX - PANEL_RIGHT_PX;
  const [least_px, most_px] = SCATTER_HEIGHT_PX;
  const height_px = Math.min(Math.max(length_px * SCATTER_SHARE, least_px), most_px);
  const entries = view.names.map((name) => ({ name, icon: 'circle' }));
  const option = {
    ...baseOption(colours),
    title: [{
      subtext: y.name, left: 0, top: legend_px - 8, padding: 0,
      subtextStyle: { color: colours.muted, fontSize: 11.5 },
    }],
    legend: { ...legendOption(entries, colours, 0), itemWidth: 12, itemHeight: 12 },
    grid: [{
      left: PANEL_LEFT_PX, top: legend_px + SCATTER_TOP_PX, width: length_px, height: height_px,
    }],
    xAxis: [axisOption(x, colours, {
      gridIndex: 0, horizontal: true, nameShown: true, length_px,
    })],
    yAxis: [axisOption(y, colours, { gridIndex: 0, horizontal: false, nameShown: false })],
    tooltip: tooltipOption('item', ([{ data }]) => bubbleTip(data.bubble), colours),
    series: [
      drawnSeries((api) => slopeShapes(view.scatter, length_px, api, colours), { z: 0 }),
      ...view.names.map((name) => bubbleSeries(view.scatter, name, length_px, colours)),
      drawnSeries((api) => bubbleLabels(view.scatter, length_px, api, colours), { z: 5 }),
    ],
  };
  return [option, legend_px + SCATTER_TOP_PX + height_px + SCATTER_BOTTOM_PX];
}

/** Return the bubbles of one answer. */
function bubbleSeries({ x, y, bubbles }, name, length_px, colours) {
  const style = bubbleStyle(name, colours);
  const own = bubbles.filter((bubble) => bubble[5] === name);
  return {
    type: 'custom',
    name,
    z: name === 'slower' ? 4 : 3,
    itemStyle: { color: style.stroke },
    data: own.map((bubble) => ({
      value: [position(x, bubble[0]), position(y, bubble[1])], bubble,
    })),
    renderItem: ({ dataIndex }, api) => bubbleShape(own[dataIndex], y, length_px, api, style),
  };
}

/** Return how the bubbles of an answer look: only significant differences are filled. */
function bubbleStyle(name, colours) {
  const tone = { faster: colours.lines[2], slower: colours.alarm }[name];
  if (tone) return { fill: tone, stroke: tone, fillOpacity: 0.4, lineWidth: 1.5 };
  const open = name === 'undecided';
  const stroke = open ? colours.caution : colours.muted;
  const lineDash = open ? [3, 3] : null;
  return { fill: stroke, stroke, fillOpacity: 0.08, lineWidth: 1.2, lineDash };
}

/** Return the radius (px) of a bubble: its area is its share. */
function bubbleRadius(area_share, length_px) {
  const [least_px, most_px] = BUBBLE_PX;
  return Math.max(least_px, Math.min(most_px, length_px * BUBBLE_SHARE) * Math.sqrt(area_share));
}

/** Return one bubble, with an upright line over its interval. */
function bubbleShape([, , low, high, area_share], y, length_px, api, style) {
  const at = [api.value(0), api.value(1)];
  const [cx, cy] = api.coord(at);
  const children = [];
  if (low !== null) {
    const [y1, y2] = [low, high].map((end) => {
      const inside = Math.min(Math.max(end, y.low), y.high);
      return api.coord([at[0], position(y, inside)])[1];
    });
    children.push({
      type: 'line',
      shape: { x1: cx, x2: cx, y1, y2 },
      style: { stroke: style.stroke, lineWidth: 1.5, opacity: 0.7 },
    });
  }
  const shape = { cx, cy, r: bubbleRadius(area_share, length_px) };
  children.push({ type: 'circle', shape, style });
  return { type: 'group', children };
}

/** Return the band about the diagonal, the diagonal, and the lines to read factors by. */
function slopeShapes({ x, slopes, margin_share }, length_px, api, colours) {
  const [low, high] = [position(x, x.low), position(x, x.high)];
  const at = (across, factor) => api.coord([across, across + Math.log10(factor)]);
  const margin = 1 + margin_share;
  const band = [at(low, margin), at(high, margin), at(high, 1 / margin), at(low, 1 / margin)];
  const lines = slopes.flatMap(({ 0: factor, 1: label }) => {
    const ends = slopeEnds(low, high, Math.log10(factor));
    if (!ends) return [];
    const [[x1, y1], [x2, y2]] = ends.map((end) => api.coord(end));
    const even = factor === 1;
    const style = {
      stroke: colours.muted, lineWidth: even ? 1.4 : 1, opacity: even ? 1 : 0.45,
      lineDash: even ? [6, 4] : [2, 4],
    };
    const line = { type: 'line', shape: { x1, x2, y1, y2 }, style };
    const shown = label && (length_px > SLOPES_WIDTH_PX || [0.1, 10].includes(factor));
    return shown ? [line, slopeLabel(label, [x2, y2], factor < 1, colours)] : [line];
  });
  return [
    { type: 'polygon', shape: { points: band }, style: { fill: colours.muted, opacity: 0.13 } },
    ...lines,
  ];
}

/** Return both ends of a line of a factor inside of the square; none where it is outside. */
function slopeEnds(low, high, shift) {
  if (Math.abs(shift) > (high - low) * 0.9) return null;
  return shift >= 0
    ? [[low, low + shift], [high - shift, high]]
    : [[low - shift, low], [high, high + shift]];
}

/** Return what stands at the upper end of a line: inside of the frame, below or left of it. */
function slopeLabel(text, [x, y], atSide, colours) {
  return {
    type: 'text',
    x: atSide ? x - 4 : x - 6,
    y: atSide ? y + 4 : y + 3,
    style: {
      text, align: 'right', verticalAlign: 'top', opacity: 0.9,
      fill: colours.muted, stroke: colours.paper, lineWidth: 3, fontSize: 11, fontFamily: FONT,
    },
  };
}

/** Return the numbers of what became slower, each next to its bubble, where there is room. */
function bubbleLabels({ x, y, bubbles }, length_px, api, colours) {
  const taken = [];
  return bubbles.filter((bubble) => bubble[6]).flatMap((bubble) => {
    const [cx, cy] = api.coord([position(x, bubble[0]), position(y, bubble[1])]);
    const r = bubbleRadius(bubble[4], length_px) * 0.72 + 8;
    const free = [[r, -r], [-r, -r], [r, r], [-r, r]].map(([dx, dy]) => [cx + dx, cy + dy]).find(
      ([lx, ly]) => taken.every(([tx, ty]) => Math.hypot(tx - lx, ty - ly) > 14),
    );
    if (!free) return [];
    taken.push(free);
    return [{
      type: 'text',
      x: free[0],
      y: free[1],
      style: {
        text: bubble[6], align: 'center', verticalAlign: 'middle',
        fill: colours.alarm, stroke: colours.paper, lineWidth: 3,
        fontSize: 11.5, fontWeight: 700, fontFamily: FONT,
      },
    }];
  });
}

/** Return the tooltip of one bubble. */
const bubbleTip = ([, , , , , name, , heading, text]) => tipContent(heading, [{ name, text }]);

/** Return the view as rows of a table, the first of them its heading. */
function scatterTable({ scatter: { x, bubbles } }) {
  const heads = ['query', 'answer', 'unit', 'before', 'after', 'after_low_95', 'after_high_95'];
  const rows = bubbles.map(([before, after, low, high, , name, , heading]) => [
    heading, name, x.unit, before, after, low, high,
  ]);
  return [heads, ...rows];
}
