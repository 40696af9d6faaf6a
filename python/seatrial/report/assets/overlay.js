// Drawn in a panel in addition to its lines: circles around outliers, marks at the bottom for
// missing data and stalls, straight guides and bands.

const RING_PX = 8.5;
const RING_LABEL_PX = 15; // from a circle's centre to its number
const FOOT_STEP_PX = 2 * RING_PX + 1;
const FOOT_PX = 3.5;
const LOW_PX = 58;

/** Return what the circles of a panel are called, and their colour: a gap is of alarm. */
const ringName = (panel) => panel.ring_name ?? 'gap';
const ringColour = (panel, colours) => (panel.ring_name ? colours.accent : colours.alarm);

/** Return the legend's entry of the circles. */
const ringLegend = (panel, colours) => ({
  name: ringName(panel),
  icon: MARKER_PATHS.emptyCircle,
  itemStyle: { color: ringColour(panel, colours) },
});

/** Return the series of all that a panel has besides its lines. */
function overlaySeries(panel, axis, colours) {
  const { rings = [], feet = [], guides = [] } = panel;
  const found = [];
  if (guides.length) {
    found.push(drawnSeries((api) => guideShapes(panel, api, colours), { axis, z: 1 }));
  }
  if (feet.length) {
    const shapes = (api) => footShapes(panel, api, colours);
    found.push({ ...drawnSeries(shapes, { axis, z: 4 }), clip: false });
  }
  if (rings.length) {
    const shapes = (api) => ringShapes(panel, api, colours);
    const color = ringColour(panel, colours);
    const options = { axis, name: ringName(panel), color, z: 5 };
    found.push({ ...drawnSeries(shapes, options), clip: false });
  }
  return found;
}

/** Return where a mark at the bottom stands: above those at the same position. */
function markPosition(panel, at, name, api) {
  const same = panel.feet.filter(([x]) => x === at);
  const index = Math.max(same.findIndex(([, known]) => known === name), 0);
  const [x, bottom] = api.coord([position(panel.x, at), position(panel.y, panel.y.low)]);
  return [x, bottom - RING_PX - 2 - index * FOOT_STEP_PX];
}

/** Return the marks at the bottom, and the word of each sort next to its first. */
function footShapes(panel, api, colours) {
  const marks = panel.feet.flatMap(([at, name, style, , sort]) => {
    const [x, y] = markPosition(panel, at, name, api);
    const stroke = lineStyle(style, colours).color;
    const across = { x1: x - FOOT_PX, x2: x + FOOT_PX };
    if (sort === 'absent') {
      return [1, -1].map((slope) => ({
        type: 'line',
        shape: { ...across, y1: y - slope * FOOT_PX, y2: y + slope * FOOT_PX },
        style: { stroke, lineWidth: 1.8 },
      }));
    }
    const points = [[x - 6, y + 5], [x + 6, y + 5], [x, y - 6]];
    return [{ type: 'polygon', shape: { points }, style: { fill: stroke } }];
  });
  const sorts = [...new Set(panel.feet.map(([, , , , sort]) => sort))];
  const words = sorts.map((sort) => {
    const first = panel.feet.filter((foot) => foot[4] === sort).reduce(
      (a, b) => (b[0] < a[0] ? b : a),
    );
    const [x, y] = markPosition(panel, first[0], '', api);
    return {
      type: 'text',
      x: x - RING_PX - 6,
      y,
      style: {
        text: sort, align: 'right', verticalAlign: 'middle',
        fill: colours.muted, stroke: colours.paper, lineWidth: 3, fontSize: 11, fontFamily: FONT,
      },
    };
  });
  return [...marks, ...words];
}

/** Return a circle around each point that needs a look, with its number where there is room. */
function ringShapes(panel, api, colours) {
  const rings = panel.rings.map(([at, value, label, , name]) => {
    const centre = value === null
      ? markPosition({ feet: [], ...panel }, at, name, api)
      : api.coord([position(panel.x, at), position(panel.y, value)]);
    return { centre, label };
  });
  const stroke = ringColour(panel, colours);
  const circles = rings.map(({ centre: [cx, cy] }) => ({
    type: 'circle',
    shape: { cx, cy, r: RING_PX },
    style: { fill: 'transparent', stroke, lineWidth: 1.8 },
  }));
  return [...circles, ...ringLabels(rings, stroke, colours)];
}

/** Return the numbers, each at the first position next to a circle of its own that is free. */
function ringLabels(rings, fill, colours) {
  const far = RING_LABEL_PX * 0.78;
  const sides = [[far, -far], [-far, -far], [far, far], [-far, far], [0, -RING_LABEL_PX - 2]];
  const taken = rings.map(({ centre }) => centre);
  const placed = [];
  for (const { centre: [x, y], label } of rings) {
    // Neighbours of one gap share a number, so that it is not repeated at every point.
    const is_near = placed.some((other) => other.label === label
      && Math.hypot(other.x - x, other.y - y) < 4 * RING_PX);
    const free = sides
      .map(([dx, dy]) => [x + dx, y + dy])
      .find(([lx, ly]) => taken.every(([tx, ty]) => Math.hypot(tx - lx, ty - ly) > RING_PX + 2));
    if (!is_near && free) {
      taken.push(free);
      placed.push({ label, x: free[0], y: free[1] });
    }
  }
  return placed.map(({ label, x, y }) => ({
    type: 'text',
    x,
    y,
    style: {
      text: label, align: 'center', verticalAlign: 'middle',
      fill, stroke: colours.paper, lineWidth: 3,
      fontSize: 11.5, fontWeight: 700, fontFamily: FONT,
    },
  }));
}

/** Return the tooltip's rows on the cells that are absent at a position. */
function absentRows({ feet = [] }, at, colours) {
  const absent = feet.filter(([x, , , , sort]) => x === at && sort === 'absent');
  return absent.map(([, name, style, text]) => ({
    name, text, color: lineStyle(style, colours).color,
  }));
}

/** Return the tooltip's rows on what is circled at a position, each gap once. */
function ringRows(panel, at, colours) {
  const here = (panel.rings ?? []).filter(([x]) => x === at);
  const texts = new Map(here.map(([, , label, text]) => [label || text, [label, text]]));
  return [...texts.values()].map(([label, text]) => ({
    name: `${ringName(panel)} ${label}`.trim(), text, color: ringColour(panel, colours),
  }));
}

/** Return the lines and bands across a panel, each with its label. */
function guideShapes(panel, api, colours) {
  const ends = (axis) => [position(axis, axis.low), position(axis, axis.high)];
  const [x_low, x_high] = ends(panel.x);
  const [y_low, y_high] = ends(panel.y);
  const [left, bottom] = api.coord([x_low, y_low]);
  const [right, top] = api.coord([x_high, y_high]);
  return panel.guides.flatMap((guide) => {
    const colour = { limit: colours.alarm, answer: colours.accent }[guide.tone] ?? colours.muted;
    const upright = guide.axis === 'x';
    const axis = upright ? panel.x : panel.y;
    const at = (value) => {
      const inside = position(axis, Math.min(Math.max(value, axis.low), axis.high));
      return upright ? api.coord([inside, y_low])[0] : api.coord([x_low, inside])[1];
    };
    const [from, to] = [at(guide.low), at(guide.high ?? guide.low)];
    const box = upright
      ? { x: from, y: top, width: to - from, height: bottom - top }
      : { x: left, y: to, width: right - left, height: from - to };
    const opacity = guide.tone === 'none' ? 0 : 0.13;
    const shape = guide.high === undefined
      ? straight(upright, from, { left, right, top, bottom }, colour)
      : { type: 'rect', shape: box, style: { fill: colour, opacity } };
    const fits = guide.label && box.width > guide.label.length * LABEL_CHARACTER_PX + 6;
    if (!guide.label || (guide.inside && !fits)) return [shape];
    // What is shown for scale stands low, out of the way of what rises to the right.
    const low = upright && guide.tone === undefined && !guide.inside;
    const label_box = low ? { ...box, y: bottom - LOW_PX } : box;
    return [shape, guideLabel(guide, label_box, [left, right], colour, colours)];
  });
}

/** Return a straight line from side to side. */
function straight(upright, at, { left, right, top, bottom }, colour) {
  const shape = upright
    ? { x1: at, x2: at, y1: top, y2: bottom } : { x1: left, x2: right, y1: at, y2: at };
  return { type: 'line', shape, style: { stroke: colour, lineWidth: 1.4, lineDash: [6, 4] } };
}

/** Return a guide's label: above a level line's left end, next to an upright one or inside it. */
function guideLabel({ axis, label, inside }, box, [left, right], colour, colours) {
  const upright = axis === 'x';
  const toTheLeft = upright && box.x > (left + right) / 2;
  const labelX = toTheLeft ? box.x - 5 : box.x + (upright ? box.width : 0) + 5;
  const aligned = toTheLeft ? 'right' : 'left';
  return {
    type: 'text',
    x: inside ? box.x + box.width / 2 : labelX,
    y: upright ? box.y + 3 : box.y - 3,
    style: {
      text: label,
      align: inside ? 'center' : aligned,
      verticalAlign: upright ? 'top' : 'bottom',
      fill: colour, stroke: colours.paper, lineWidth: 3, fontSize: 11.5, fontFamily: FONT,
    },
  };
}
